/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where descriptors stand that stay open, see descriptor.c.
 */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

/* The same file by a higher number, if there is one; the lower one is closed then. */
int descriptor_raised(int file);

#endif
