//! Helpers for untracked fields, whose types need not implement serde's traits. Not part of the public API.
//!
//! Only values that can be serialised appear in streams. The generated code chooses the implementation by autoref
//! specialisation: it calls a method on a reference to [`Shown`] or [`Stored`], and method resolution finds the
//! implementation for serialisable types before the implementation for all types, which needs one more reference.

use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::state::{
    derive,
    field::{FieldError, FieldWrite},
    fold::Write,
};

#[derive(Debug)]
pub struct Shown<'a, T>(pub &'a T);

pub trait ShowSerialised {
    fn to_value(&self, field: &str) -> Result<Option<Value>, FieldError>;
}

impl<T: Serialize> ShowSerialised for Shown<'_, T> {
    fn to_value(&self, field: &str) -> Result<Option<Value>, FieldError> {
        derive::to_value(field, self.0)
    }
}

pub trait ShowNothing {
    fn to_value(&self, field: &str) -> Result<Option<Value>, FieldError>;
}

impl<T> ShowNothing for &Shown<'_, T> {
    fn to_value(&self, _: &str) -> Result<Option<Value>, FieldError> {
        Ok(None)
    }
}

#[derive(Debug)]
pub struct Stored<T>(pub PhantomData<T>);

pub trait ReadSerialised<T> {
    fn pull(&self, write: FieldWrite) -> Result<Option<Write<T>>, FieldError>;
}

impl<T: DeserializeOwned> ReadSerialised<T> for Stored<T> {
    fn pull(&self, write: FieldWrite) -> Result<Option<Write<T>>, FieldError> {
        derive::pull_write(write)
    }
}

pub trait ReadNothing<T> {
    fn pull(&self, write: FieldWrite) -> Result<Option<Write<T>>, FieldError>;
}

impl<T> ReadNothing<T> for &Stored<T> {
    fn pull(&self, _: FieldWrite) -> Result<Option<Write<T>>, FieldError> {
        Ok(None)
    }
}
