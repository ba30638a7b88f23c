/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * As signal_process, of SIGURG, by which heddle preempts threads: its workers let it through.
 */
#define FIRST SIGURG
#define SECOND SIGURG
#include "signal_process.c"
