//! VFS that delegates everything to SQLite's default VFS, except for writes to WAL files, which are buffered.
//! Databases, locks and the WAL index are not affected.

use crate::write_buffer::WriteBuffer;
use crate::{RegisterError, is_batching, record_write, stop_batching};
use rusqlite::ffi;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::offset_of;
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

const NAME: &CStr = c"interzone-log";

/// The default VFS. Set before registration and never changed.
static DEFAULT_VFS: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// A WAL file, in memory allocated by SQLite, followed by the default VFS's own file object.
#[repr(C)]
struct WalFile {
    base: ffi::sqlite3_file,
    /// From a box, which is freed when the file is closed.
    buffer: *mut WriteBuffer,
    inner: ffi::sqlite3_file,
}

/// Offset of the default VFS's file object in that memory. Both begin with a pointer, so the alignment is the same.
const INNER_OFFSET: usize = offset_of!(WalFile, inner);

pub(crate) fn register_once() -> Result<&'static str, RegisterError> {
    static RESULT: OnceLock<Result<(), RegisterError>> = OnceLock::new();
    let name = NAME
        .to_str()
        .map_err(|_| RegisterError(ffi::SQLITE_ERROR))?;
    RESULT.get_or_init(register).map(|()| name)
}

fn register() -> Result<(), RegisterError> {
    // SAFETY: may be called from any thread; a null name requests the default.
    let default = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if default.is_null() {
        return Err(RegisterError(ffi::SQLITE_ERROR));
    }
    DEFAULT_VFS.store(default, Ordering::Release);
    // SAFETY: a registered VFS stays valid. The `pNext` link, which may change, is not used.
    let default = unsafe { default.read() };
    let offset = c_int::try_from(INNER_OFFSET).map_err(|_| RegisterError(ffi::SQLITE_ERROR))?;
    // The default VFS's functions are passed our VFS object. They use only the data copied here and call the operating
    // system directly.
    let shim = ffi::sqlite3_vfs {
        szOsFile: default.szOsFile.saturating_add(offset),
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        xOpen: Some(open),
        ..default
    };
    // SQLite keeps it for the lifetime of the process.
    let shim = Box::into_raw(Box::new(shim));
    // SAFETY: it is initialized, has a unique name and is never freed.
    match unsafe { ffi::sqlite3_vfs_register(shim, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(RegisterError(code)),
    }
}

/// Opens a file.
///
/// # Safety
/// Called by SQLite: `file` points to memory of the registered size.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let default = DEFAULT_VFS.load(Ordering::Acquire);
    // SAFETY: set at registration, and stays valid.
    let Some(open) = (unsafe { (*default).xOpen }) else {
        return ffi::SQLITE_ERROR;
    };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        // SAFETY: all arguments come from SQLite, and the memory is larger than the default VFS needs.
        return unsafe { open(default, name, file, flags, out) };
    }
    let wal = file.cast::<WalFile>();
    // SAFETY: the memory is larger than the inner file object by `INNER_OFFSET`, and begins with this struct.
    let inner = unsafe { &raw mut (*wal).inner };
    // SAFETY: as above. The default open need not set it when it fails.
    unsafe { (*inner).pMethods = ptr::null() };
    // SAFETY: the memory behind `INNER_OFFSET` has the required size and pointer alignment.
    let code = unsafe { open(default, name, inner, flags, out) };
    // SAFETY: set above.
    let is_open = !unsafe { (*inner).pMethods }.is_null();
    let (methods, buffer): (*const ffi::sqlite3_io_methods, _) = match is_open {
        true => (&raw const METHODS, Box::into_raw(Box::default())),
        false => (ptr::null(), ptr::null_mut()),
    };
    // SAFETY: the memory is ours.
    unsafe { (*wal).buffer = buffer };
    // SAFETY: the memory is ours. Without methods SQLite calls nothing more on it.
    unsafe { (*wal).base.pMethods = methods };
    code
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Methods of later versions are for databases only: shared memory and memory mapping.
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The default VFS's file object of a WAL file, and its methods.
struct InnerFile {
    file: *mut ffi::sqlite3_file,
    methods: &'static ffi::sqlite3_io_methods,
}

/// Returns the write buffer and the inner file of an open WAL file.
///
/// # Safety
/// `file` was opened by [`open`], not closed by [`close`], and is not in use elsewhere: SQLite serializes the use of a
/// connection, and a WAL file object belongs to one connection.
unsafe fn split<'a>(file: *mut ffi::sqlite3_file) -> (&'a mut WriteBuffer, InnerFile) {
    let wal = file.cast::<WalFile>();
    // SAFETY: required of the caller; `open` has set it.
    let buffer = unsafe { (*wal).buffer };
    // SAFETY: from a box that is still alive, with no other reference.
    let buffer = unsafe { &mut *buffer };
    // SAFETY: required of the caller.
    let file = unsafe { &raw mut (*wal).inner };
    // SAFETY: as above; the default file object begins with this.
    let methods = unsafe { (*file).pMethods };
    // SAFETY: it is open, so it has methods, which are static.
    let methods = unsafe { &*methods };
    (buffer, InnerFile { file, methods })
}

impl InnerFile {
    fn write(&self, offset: i64, bytes: &[u8]) -> c_int {
        let (Some(write), Ok(length)) = (self.methods.xWrite, c_int::try_from(bytes.len())) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: it is open, and the bytes outlive the call.
        let code = unsafe { write(self.file, bytes.as_ptr().cast(), length, offset) };
        // No system call was made since the failed write, so errno is still set.
        record_write(match code {
            ffi::SQLITE_OK => None,
            _ => Some(io::Error::last_os_error().kind()),
        });
        code
    }

    /// Writes the buffer of the current commit. On error the buffer is discarded: SQLite gets the error and rolls
    /// back the transaction.
    ///
    /// Outside a batch the buffer belongs to a failed commit and is dropped: another writer may have written at its
    /// offset.
    fn flush(&self, buffer: &mut WriteBuffer) -> c_int {
        let code = match buffer.contents() {
            Some((offset, bytes)) if is_batching() => self.write(offset, bytes),
            _ => ffi::SQLITE_OK,
        };
        buffer.clear();
        code
    }
}

/// Writes the buffer, then calls the method of the inner file.
macro_rules! flush_and_call {
    ($file:expr, $method:ident, $error:expr $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls this for an open WAL file.
        let (buffer, inner) = unsafe { split($file) };
        let code = inner.flush(buffer);
        match inner.methods.$method {
            _ if code != ffi::SQLITE_OK => code,
            None => $error,
            // SAFETY: the arguments come from SQLite, and the file is the inner one.
            Some(method) => unsafe { method(inner.file $(, $argument)*) },
        }
    }};
}

/// Calls the method of the inner file, for operations that do not depend on the content.
macro_rules! call_inner {
    ($file:expr, $method:ident, $default:expr $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls this for an open WAL file.
        let (_, inner) = unsafe { split($file) };
        match inner.methods.$method {
            None => $default,
            // SAFETY: the arguments come from SQLite, and the file is the inner one.
            Some(method) => unsafe { method(inner.file $(, $argument)*) },
        }
    }};
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this for an open WAL file.
    let (buffer, inner) = unsafe { split(file) };
    let Ok(length) = usize::try_from(length) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    if length == 0 {
        return ffi::SQLITE_OK;
    }
    // SAFETY: SQLite passes this many bytes, unchanged during the call.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), length) };
    if is_batching() && buffer.try_append(offset, bytes) {
        return ffi::SQLITE_OK;
    }
    match inner.flush(buffer) {
        ffi::SQLITE_OK if is_batching() && buffer.try_append(offset, bytes) => ffi::SQLITE_OK,
        // Not in a batch, or larger than the buffer.
        ffi::SQLITE_OK => inner.write(offset, bytes),
        code => code,
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    flush_and_call!(file, xRead, ffi::SQLITE_IOERR_READ, into, length, offset)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    flush_and_call!(file, xTruncate, ffi::SQLITE_IOERR_TRUNCATE, size)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let code = flush_and_call!(file, xSync, ffi::SQLITE_IOERR_FSYNC, flags);
    // After a sync SQLite may publish later frames without another sync.
    stop_batching();
    code
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    flush_and_call!(file, xFileSize, ffi::SQLITE_IOERR_FSTAT, size)
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    flush_and_call!(
        file,
        xFileControl,
        ffi::SQLITE_NOTFOUND,
        operation,
        argument
    )
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this for an open WAL file.
    let (buffer, inner) = unsafe { split(file) };
    // Unsynced bytes belong to no commit.
    buffer.clear();
    let code = match inner.methods.xClose {
        None => ffi::SQLITE_IOERR_CLOSE,
        // SAFETY: it is open, and not used afterwards.
        Some(close) => unsafe { close(inner.file) },
    };
    let wal = file.cast::<WalFile>();
    // SAFETY: it was open until now.
    let buffer = unsafe { (*wal).buffer };
    // SAFETY: from a box, and used for the last time: without methods SQLite calls nothing more on it.
    drop(unsafe { Box::from_raw(buffer) });
    // SAFETY: the memory is still ours.
    unsafe { (*wal).base.pMethods = ptr::null() };
    code
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    call_inner!(file, xLock, ffi::SQLITE_IOERR_LOCK, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    call_inner!(file, xUnlock, ffi::SQLITE_IOERR_UNLOCK, level)
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    is_reserved: *mut c_int,
) -> c_int {
    call_inner!(
        file,
        xCheckReservedLock,
        ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
        is_reserved
    )
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    call_inner!(file, xSectorSize, 4096)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    call_inner!(file, xDeviceCharacteristics, 0)
}
