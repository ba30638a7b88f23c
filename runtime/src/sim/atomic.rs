//! Atomics with a [`point`] before each operation.

use core::sync::atomic::{self, Ordering};

use super::point;

/// See the file's head.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct AtomicU32(atomic::AtomicU32);

impl AtomicU32 {
    pub const fn new(value: u32) -> Self {
        AtomicU32(atomic::AtomicU32::new(value))
    }

    /// Without points: for the kernel.
    pub fn plain(&self) -> &atomic::AtomicU32 {
        &self.0
    }

    pub fn load(&self, order: Ordering) -> u32 {
        point();
        self.0.load(order)
    }

    pub fn store(&self, value: u32, order: Ordering) {
        point();
        self.0.store(value, order);
    }

    pub fn swap(&self, value: u32, order: Ordering) -> u32 {
        point();
        self.0.swap(value, order)
    }

    pub fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        point();
        self.0.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        point();
        self.0.fetch_sub(value, order)
    }

    pub fn compare_exchange(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        point();
        self.0.compare_exchange(from, to, success, failure)
    }

    pub fn compare_exchange_weak(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.compare_exchange(from, to, success, failure)
    }
}

/// See the file's head.
#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub const fn new(value: *mut T) -> Self {
        AtomicPtr(atomic::AtomicPtr::new(value))
    }

    pub fn load(&self, order: Ordering) -> *mut T {
        point();
        self.0.load(order)
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        point();
        self.0.store(value, order);
    }

    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        point();
        self.0.swap(value, order)
    }

    pub fn compare_exchange(
        &self,
        from: *mut T,
        to: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        point();
        self.0.compare_exchange(from, to, success, failure)
    }

    pub fn compare_exchange_weak(
        &self,
        from: *mut T,
        to: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.compare_exchange(from, to, success, failure)
    }
}
