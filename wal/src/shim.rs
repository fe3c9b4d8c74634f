//! SQLite's own file system, but for logs, whose writes are gathered. Everything else goes to the engine's functions
//! as it came: databases, their locks and the index of the log are not touched here.

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

/// The engine's file system. It is set before ours can be asked for anything, and never changes.
static OWN: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// A log, in memory that the engine gave, in which its own file for the same log follows.
#[repr(C)]
struct Log {
    base: ffi::sqlite3_file,
    /// From a box, which is freed when the log is closed.
    pending: *mut Pending,
    own: ffi::sqlite3_file,
}

/// How far into the memory the engine's own file begins. It is aligned as ours is, for both begin with a pointer.
const HEAD: usize = offset_of!(Log, own);

pub(crate) fn registered() -> Result<&'static str, Unavailable> {
    static DONE: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    let name = NAME.to_str().map_err(|_| Unavailable(ffi::SQLITE_ERROR))?;
    DONE.get_or_init(register).map(|()| name)
}

fn register() -> Result<(), Unavailable> {
    // SAFETY: any thread may call it, and a null name asks for the default.
    let own = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if own.is_null() {
        return Err(Unavailable(ffi::SQLITE_ERROR));
    }
    OWN.store(own, Ordering::Release);
    // SAFETY: what is registered stays where it is. The link to the next, which may change, is not used.
    let like = unsafe { own.read() };
    let head = c_int::try_from(HEAD).map_err(|_| Unavailable(ffi::SQLITE_ERROR))?;
    // The functions that are not ours are told of ours in place of theirs. None of them looks at more than the data
    // that is copied here: they ask the system, not the description.
    let ours = ffi::sqlite3_vfs {
        szOsFile: like.szOsFile.saturating_add(head),
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        xOpen: Some(open),
        ..like
    };
    // The engine keeps it for as long as the process lives.
    let ours = Box::into_raw(Box::new(ours));
    // SAFETY: it is whole, has a name of its own and is never freed.
    match unsafe { ffi::sqlite3_vfs_register(ours, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Unavailable(code)),
    }
}

/// Opens a file.
///
/// # Safety
/// As the engine calls it: `file` points to memory of the size that was registered.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let own = OWN.load(Ordering::Acquire);
    // SAFETY: it was set when ours was registered, and stays where it is.
    let Some(open) = (unsafe { (*own).xOpen }) else {
        return ffi::SQLITE_ERROR;
    };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        // SAFETY: all is as the engine gave it, and the memory is larger than its own function needs.
        return unsafe { open(own, name, file, flags, out) };
    }
    let log = file.cast::<Log>();
    // SAFETY: the memory is ours by `HEAD` and what the engine's own file needs, which begins with this.
    let inner = unsafe { &raw mut (*log).own };
    // SAFETY: as above. Its function need not set it when it fails.
    unsafe { (*inner).pMethods = ptr::null() };
    // SAFETY: behind `HEAD` is as much memory as it asks for, aligned as a pointer.
    let code = unsafe { open(own, name, inner, flags, out) };
    // SAFETY: it was set above.
    let is_open = !unsafe { (*inner).pMethods }.is_null();
    let (methods, pending): (*const ffi::sqlite3_io_methods, _) = match is_open {
        true => (&raw const METHODS, Box::into_raw(Box::default())),
        false => (ptr::null(), ptr::null_mut()),
    };
    // SAFETY: the memory is ours.
    unsafe { (*log).pending = pending };
    // SAFETY: the memory is ours. Without methods the engine asks nothing more of it.
    unsafe { (*log).base.pMethods = methods };
    code
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // What came later is for databases: shared memory and mapped pages.
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

/// The engine's own file for a log, and what it can do.
struct Own {
    file: *mut ffi::sqlite3_file,
    methods: &'static ffi::sqlite3_io_methods,
}

/// What an open log is made of.
///
/// # Safety
/// `file` is a log that [`open`] opened and [`close`] did not close, and nobody else uses it now: the engine lets one
/// thread at a time use a connection, and a log belongs to one.
unsafe fn parts<'a>(file: *mut ffi::sqlite3_file) -> (&'a mut Pending, Own) {
    let log = file.cast::<Log>();
    // SAFETY: the caller's promise; `open` put it there.
    let pending = unsafe { (*log).pending };
    // SAFETY: it is from a box that is still there, and nobody else has it.
    let pending = unsafe { &mut *pending };
    // SAFETY: the caller's promise.
    let file = unsafe { &raw mut (*log).own };
    // SAFETY: as above; the engine's own file begins with this.
    let methods = unsafe { (*file).pMethods };
    // SAFETY: it is open, so it has methods, and they are for ever.
    let methods = unsafe { &*methods };
    (pending, Own { file, methods })
}

impl Own {
    fn write(&self, at: i64, bytes: &[u8]) -> c_int {
        let (Some(write), Ok(length)) = (self.methods.xWrite, c_int::try_from(bytes.len())) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: it is open, and the bytes are there for as long as it takes.
        let code = unsafe { write(self.file, bytes.as_ptr().cast(), length, at) };
        // The engine's function has asked nothing of the system since the write that failed.
        note_write(match code {
            ffi::SQLITE_OK => None,
            _ => Some(io::Error::last_os_error().kind()),
        });
        code
    }

    /// Writes what is pending of the commit that is being made. If it cannot be written, it is forgotten: the engine
    /// is told, and undoes the whole transaction.
    ///
    /// Outside of a commit it is of one that failed. Then it is dropped: its place may be another's by now.
    fn write_out(&self, pending: &mut Pending) -> c_int {
        let code = match pending.stretch() {
            Some((at, bytes)) if is_gathering() => self.write(at, bytes),
            _ => ffi::SQLITE_OK,
        };
        pending.clear();
        code
    }
}

/// Writes what is pending, then asks the engine's own file.
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

/// Asks the engine's own file what no byte in it changes.
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
    // SAFETY: the engine gives so many bytes, which nobody changes during the call.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), length) };
    if is_gathering() && pending.takes(at, bytes) {
        return ffi::SQLITE_OK;
    }
    match own.write_out(pending) {
        ffi::SQLITE_OK if is_gathering() && pending.takes(at, bytes) => ffi::SQLITE_OK,
        // No commit, or more than is ever kept back.
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
    // Whatever follows may be told to others without another sync.
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
    // What is not synced by now belongs to no commit.
    pending.clear();
    let code = match own.methods.xClose {
        None => ffi::SQLITE_IOERR_CLOSE,
        // SAFETY: it is open, and not used again.
        Some(close) => unsafe { close(own.file) },
    };
    let log = file.cast::<Log>();
    // SAFETY: it was open until now.
    let pending = unsafe { (*log).pending };
    // SAFETY: it is from a box, and this is the last time that it is used: without methods nothing more is asked.
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
