//! VFS that delegates everything to SQLite's default VFS, except for writes to WAL files, which are buffered.
//! Databases, locks and the WAL index are not affected.

use crate::pending::Pending;
use crate::{Unavailable, is_gathering, note_write, stop_gathering};
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
static OWN: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// A WAL file, in memory allocated by SQLite, followed by the default VFS's own file object.
#[repr(C)]
struct Log {
    base: ffi::sqlite3_file,
    /// From a box, which is freed when the file is closed.
    pending: *mut Pending,
    own: ffi::sqlite3_file,
}

/// Offset of the default VFS's file object in that memory. Both begin with a pointer, so the alignment is the same.
const HEAD: usize = offset_of!(Log, own);

pub(crate) fn registered() -> Result<&'static str, Unavailable> {
    static DONE: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    let name = NAME.to_str().map_err(|_| Unavailable(ffi::SQLITE_ERROR))?;
    DONE.get_or_init(register).map(|()| name)
}

fn register() -> Result<(), Unavailable> {
    // SAFETY: may be called from any thread; a null name requests the default.
    let own = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if own.is_null() {
        return Err(Unavailable(ffi::SQLITE_ERROR));
    }
    OWN.store(own, Ordering::Release);
    // SAFETY: a registered VFS stays valid. The `pNext` link, which may change, is not used.
    let like = unsafe { own.read() };
    let head = c_int::try_from(HEAD).map_err(|_| Unavailable(ffi::SQLITE_ERROR))?;
    // The default VFS's functions are passed our VFS object. They use only the data copied here and call the operating
    // system directly.
    let ours = ffi::sqlite3_vfs {
        szOsFile: like.szOsFile.saturating_add(head),
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        xOpen: Some(open),
        ..like
    };
    // SQLite keeps it for the lifetime of the process.
    let ours = Box::into_raw(Box::new(ours));
    // SAFETY: it is initialized, has a unique name and is never freed.
    match unsafe { ffi::sqlite3_vfs_register(ours, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Unavailable(code)),
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
    let own = OWN.load(Ordering::Acquire);
    // SAFETY: set at registration, and stays valid.
    let Some(open) = (unsafe { (*own).xOpen }) else {
        return ffi::SQLITE_ERROR;
    };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        // SAFETY: all arguments come from SQLite, and the memory is larger than the default VFS needs.
        return unsafe { open(own, name, file, flags, out) };
    }
    let log = file.cast::<Log>();
    // SAFETY: the memory is larger than the default file object by `HEAD`, and begins with this struct.
    let inner = unsafe { &raw mut (*log).own };
    // SAFETY: as above. The default open need not set it when it fails.
    unsafe { (*inner).pMethods = ptr::null() };
    // SAFETY: the memory behind `HEAD` has the required size and pointer alignment.
    let code = unsafe { open(own, name, inner, flags, out) };
    // SAFETY: set above.
    let is_open = !unsafe { (*inner).pMethods }.is_null();
    let (methods, pending): (*const ffi::sqlite3_io_methods, _) = match is_open {
        true => (&raw const METHODS, Box::into_raw(Box::default())),
        false => (ptr::null(), ptr::null_mut()),
    };
    // SAFETY: the memory is ours.
    unsafe { (*log).pending = pending };
    // SAFETY: the memory is ours. Without methods SQLite calls nothing more on it.
    unsafe { (*log).base.pMethods = methods };
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
struct Own {
    file: *mut ffi::sqlite3_file,
    methods: &'static ffi::sqlite3_io_methods,
}

/// Parts of an open WAL file.
///
/// # Safety
/// `file` was opened by [`open`], not closed by [`close`], and is not in use elsewhere: SQLite serializes the use of a
/// connection, and a WAL file object belongs to one connection.
unsafe fn parts<'a>(file: *mut ffi::sqlite3_file) -> (&'a mut Pending, Own) {
    let log = file.cast::<Log>();
    // SAFETY: the caller's promise; `open` put it there.
    let pending = unsafe { (*log).pending };
    // SAFETY: from a box that is still alive, with no other reference.
    let pending = unsafe { &mut *pending };
    // SAFETY: the caller's promise.
    let file = unsafe { &raw mut (*log).own };
    // SAFETY: as above; the default file object begins with this.
    let methods = unsafe { (*file).pMethods };
    // SAFETY: it is open, so it has methods, which are static.
    let methods = unsafe { &*methods };
    (pending, Own { file, methods })
}

impl Own {
    fn write(&self, at: i64, bytes: &[u8]) -> c_int {
        let (Some(write), Ok(length)) = (self.methods.xWrite, c_int::try_from(bytes.len())) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: it is open, and the bytes outlive the call.
        let code = unsafe { write(self.file, bytes.as_ptr().cast(), length, at) };
        // No system call was made since the failed write, so errno is still set.
        note_write(match code {
            ffi::SQLITE_OK => None,
            _ => Some(io::Error::last_os_error().kind()),
        });
        code
    }

    /// Writes the buffer of the current commit. On error the buffer is discarded: SQLite gets the error and rolls
    /// back the transaction.
    ///
    /// Outside a commit the buffer belongs to a failed one and is dropped: another writer may have used its place.
    fn write_out(&self, pending: &mut Pending) -> c_int {
        let code = match pending.stretch() {
            Some((at, bytes)) if is_gathering() => self.write(at, bytes),
            _ => ffi::SQLITE_OK,
        };
        pending.clear();
        code
    }
}

/// Writes the buffer, then calls the default method.
macro_rules! after_what_is_pending {
    ($file:expr, $method:ident, $fault:expr $(, $given:expr)*) => {{
        // SAFETY: the engine calls this for a log that is open.
        let (pending, own) = unsafe { parts($file) };
        let code = own.write_out(pending);
        match own.methods.$method {
            _ if code != ffi::SQLITE_OK => code,
            None => $fault,
            // SAFETY: all is as the engine gave it, but for the file, which is its own.
            Some(method) => unsafe { method(own.file $(, $given)*) },
        }
    }};
}

/// Calls the default method, for queries that do not depend on the content.
macro_rules! as_it_is {
    ($file:expr, $method:ident, $otherwise:expr $(, $given:expr)*) => {{
        // SAFETY: the engine calls this for a log that is open.
        let (_, own) = unsafe { parts($file) };
        match own.methods.$method {
            None => $otherwise,
            // SAFETY: all is as the engine gave it, but for the file, which is its own.
            Some(method) => unsafe { method(own.file $(, $given)*) },
        }
    }};
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the engine calls this for a log that is open.
    let (pending, own) = unsafe { parts(file) };
    let Ok(length) = usize::try_from(length) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    if length == 0 {
        return ffi::SQLITE_OK;
    }
    // SAFETY: SQLite passes this many bytes, unchanged during the call.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), length) };
    if is_gathering() && pending.takes(at, bytes) {
        return ffi::SQLITE_OK;
    }
    match own.write_out(pending) {
        ffi::SQLITE_OK if is_gathering() && pending.takes(at, bytes) => ffi::SQLITE_OK,
        // Not in a commit, or larger than the buffer.
        ffi::SQLITE_OK => own.write(at, bytes),
        code => code,
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    after_what_is_pending!(file, xRead, ffi::SQLITE_IOERR_READ, into, length, at)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    after_what_is_pending!(file, xTruncate, ffi::SQLITE_IOERR_TRUNCATE, size)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let code = after_what_is_pending!(file, xSync, ffi::SQLITE_IOERR_FSYNC, flags);
    // After a sync SQLite may publish later frames without another sync.
    stop_gathering();
    code
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    after_what_is_pending!(file, xFileSize, ffi::SQLITE_IOERR_FSTAT, size)
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    what: c_int,
    about: *mut c_void,
) -> c_int {
    after_what_is_pending!(file, xFileControl, ffi::SQLITE_NOTFOUND, what, about)
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the engine calls this for a log that is open.
    let (pending, own) = unsafe { parts(file) };
    // Unsynced bytes belong to no commit.
    pending.clear();
    let code = match own.methods.xClose {
        None => ffi::SQLITE_IOERR_CLOSE,
        // SAFETY: it is open, and not used afterwards.
        Some(close) => unsafe { close(own.file) },
    };
    let log = file.cast::<Log>();
    // SAFETY: it was open until now.
    let pending = unsafe { (*log).pending };
    // SAFETY: from a box, and used for the last time: without methods SQLite calls nothing more on it.
    drop(unsafe { Box::from_raw(pending) });
    // SAFETY: the memory is still ours.
    unsafe { (*log).base.pMethods = ptr::null() };
    code
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    as_it_is!(file, xLock, ffi::SQLITE_IOERR_LOCK, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    as_it_is!(file, xUnlock, ffi::SQLITE_IOERR_UNLOCK, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, is: *mut c_int) -> c_int {
    as_it_is!(
        file,
        xCheckReservedLock,
        ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
        is
    )
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    as_it_is!(file, xSectorSize, 4096)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    as_it_is!(file, xDeviceCharacteristics, 0)
}
