//! The file system as session storage uses it: one trait, so that tests can fail any step of it.
//!
//! # Invariants
//! - Storage touches files through [`Fs`] alone, and [`StdFs`] is the only owner of `std::fs` there.
//! - New files are private (0600) from the moment they exist, new folders too (0700).
//! - [`FsFile::append`] is one `write` call; it may be short.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMeta {
    /// Length in bytes.
    pub len: u64,
    /// Last change of the content, in nanoseconds since the Unix epoch.
    pub modified_ns: i128,
    /// Last change of the content or of what `stat` tells, in nanoseconds since the Unix epoch: no program can set it back.
    /// Where the system has none, the last change of the content.
    pub changed_ns: i128,
    /// Device and inode; zero where the system has none.
    pub identity: (u64, u64),
    /// Permission bits; zero where the system has none.
    pub mode: u32,
    /// File, folder, link or something else.
    pub kind: FileKind,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link (only from [`Fs::link_metadata`] and [`Fs::read_dir`]).
    Link,
    /// A pipe, a socket, a device.
    Other,
}

/// What is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderItem {
    /// Its path.
    pub path: PathBuf,
    /// What it is, a link being a link.
    pub kind: FileKind,
    /// What `stat` tells of a regular file.
    pub meta: Option<FileMeta>,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Reading.
    Read,
    /// Reading, and appending with `O_APPEND`.
    Append,
    /// Appending to a private file that must not exist yet.
    CreateNew,
    /// Appending to a private file that may exist (for lock files).
    CreateOrOpen,
}

/// The steps of a file system that storage needs.
pub trait Fs: Send + Sync + Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>>;

    /// `stat`, following links.
    ///
    /// # Errors
    /// What the system says.
    fn metadata(&self, path: &Path) -> io::Result<FileMeta>;

    /// `stat`, following links, without the times, which may come as zero. Linux gives a file finer times from the moment
    /// that somebody asked for them, and then each write costs half as much again; an append need not ask.
    ///
    /// # Errors
    /// What the system says.
    fn metadata_without_times(&self, path: &Path) -> io::Result<FileMeta> {
        self.metadata(path)
    }

    /// `lstat`.
    ///
    /// # Errors
    /// What the system says.
    fn link_metadata(&self, path: &Path) -> io::Result<FileMeta>;

    /// The names in a folder, in no order, with what they are (links as links).
    ///
    /// # Errors
    /// What the system says.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileKind)>>;

    /// The things in a folder whose names are `wanted`, in no order. Files come with what `stat` tells, which costs less
    /// so than by their paths; one that went away meanwhile is left out.
    ///
    /// # Errors
    /// What the system says.
    fn read_dir_files(&self, path: &Path, wanted: &dyn Fn(&Path, FileKind) -> bool) -> io::Result<Vec<FolderItem>> {
        let mut items = Vec::new();
        for (path, kind) in self.read_dir(path)? {
            match kind {
                _ if !wanted(Path::new(path.file_name().unwrap_or_default()), kind) => {}
                FileKind::File => {
                    let meta = self.link_metadata(&path).ok();
                    items.extend(meta.map(|meta| FolderItem { path, kind: meta.kind, meta: Some(meta) }));
                }
                FileKind::Folder | FileKind::Link | FileKind::Other => items.push(FolderItem { path, kind, meta: None }),
            }
        }
        Ok(items)
    }

    /// Creates a folder and its parents, private.
    ///
    /// # Errors
    /// What the system says.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Renames a file over another, atomically.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name that must not exist yet.
    ///
    /// # Errors
    /// What the system says.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder survive a power cut.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The path without links.
    ///
    /// # Errors
    /// What the system says.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
}

/// An open file.
pub trait FsFile: Send + Sync + Debug {
    /// Reads at a position; fewer bytes than asked for may come, none at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// One `write` at the end of the file; returns how many bytes it took.
    ///
    /// # Errors
    /// What the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// The position behind the last [`append`](FsFile::append) of this handle. Where the system does not tell where a
    /// write landed, the length of the file, which is more when others wrote since.
    ///
    /// # Errors
    /// What the system says.
    fn appended_end(&self) -> io::Result<u64> {
        self.metadata().map(|meta| meta.len)
    }

    /// `fdatasync`.
    ///
    /// # Errors
    /// What the system says.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// `fstat`.
    ///
    /// # Errors
    /// What the system says.
    fn metadata(&self) -> io::Result<FileMeta>;

    /// Sets the permission bits, where the system has them.
    ///
    /// # Errors
    /// What the system says.
    fn set_mode(&self, mode: u32) -> io::Result<()>;

    /// Takes the exclusive advisory lock, waiting for it. The system frees it when the last handle closes.
    ///
    /// # Errors
    /// What the system says.
    fn lock(&self) -> io::Result<()>;

    /// Takes the exclusive advisory lock if it is free; false if another handle has it.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self) -> io::Result<bool>;

    /// Takes the lock together with others who take it so, if nobody has the exclusive one; false if somebody has.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock_shared(&self) -> io::Result<bool>;

    /// Frees the lock.
    ///
    /// # Errors
    /// What the system says.
    fn unlock(&self) -> io::Result<()>;
}

/// Fills `buffer` from `offset` on.
///
/// # Errors
/// What the system says, and `UnexpectedEof` when the file ends before.
pub fn read_exact_at(file: &dyn FsFile, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                buffer = &mut buffer[len..];
                offset += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a file that has to be a regular one, where it exists: to open a pipe could wait for ever, and a device may have
/// no end.
///
/// # Errors
/// What the system says, and `InvalidInput` for anything but a regular file.
pub(crate) fn open_regular(fs: &dyn Fs, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>> {
    match fs.metadata(path) {
        Ok(meta) if meta.kind != FileKind::File => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs.open(path, how)
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdFs;

#[expect(clippy::disallowed_methods, reason = "the one owner of std::fs in storage")]
mod std_fs {
    use std::fs::{self, File, OpenOptions, TryLockError};
    #[cfg(unix)]
    use std::io::Seek as _;
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use super::{FileKind, FileMeta, FolderItem, Fs, FsFile, OpenFor, StdFs};
    #[cfg(not(target_os = "linux"))]
    use crate::storage::cores::map_on_all_cores;

    /// How many files of one folder one thread asks for.
    const FILES_A_THREAD: usize = 2_000;

    #[derive(Debug)]
    struct StdFile(File);

    fn kind_of(file_type: fs::FileType) -> FileKind {
        if file_type.is_file() {
            FileKind::File
        } else if file_type.is_dir() {
            FileKind::Folder
        } else if file_type.is_symlink() {
            FileKind::Link
        } else {
            FileKind::Other
        }
    }

    fn meta_of(meta: &fs::Metadata) -> FileMeta {
        #[cfg(unix)]
        let (identity, mode) = {
            use std::os::unix::fs::MetadataExt as _;
            ((meta.dev(), meta.ino()), meta.mode() & 0o7777)
        };
        #[cfg(not(unix))]
        let (identity, mode) = ((0, 0), 0);
        let since_epoch = |time: std::time::SystemTime| match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        let modified_ns = meta.modified().map_or(0, since_epoch);
        #[cfg(unix)]
        let changed_ns = {
            use std::os::unix::fs::MetadataExt as _;
            i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec())
        };
        #[cfg(not(unix))]
        let changed_ns = modified_ns;
        FileMeta { len: meta.len(), modified_ns, changed_ns, identity, mode, kind: kind_of(meta.file_type()) }
    }

    impl Fs for StdFs {
        fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn FsFile>> {
            let mut options = OpenOptions::new();
            options.read(true);
            match how {
                OpenFor::Read => {}
                OpenFor::Append => drop(options.append(true)),
                OpenFor::CreateNew => drop(options.append(true).create_new(true)),
                OpenFor::CreateOrOpen => drop(options.append(true).create(true)),
            }
            #[cfg(unix)]
            {
                use std::os::unix::fs::OpenOptionsExt as _;
                options.mode(0o600);
            }
            Ok(Arc::new(StdFile(options.open(path)?)))
        }

        fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
            fs::metadata(path).map(|meta| meta_of(&meta))
        }

        #[cfg(target_os = "linux")]
        fn metadata_without_times(&self, path: &Path) -> io::Result<FileMeta> {
            use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

            match linux::meta_of(statx(CWD, path, AtFlags::empty(), linux::WITHOUT_TIMES), StatxFlags::empty())? {
                Some(meta) => Ok(meta),
                None => self.metadata(path),
            }
        }

        fn link_metadata(&self, path: &Path) -> io::Result<FileMeta> {
            fs::symlink_metadata(path).map(|meta| meta_of(&meta))
        }

        fn read_dir(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileKind)>> {
            fs::read_dir(path)?.map(|item| item.and_then(|item| Ok((item.path(), kind_of(item.file_type()?))))).collect()
        }

        #[cfg(target_os = "linux")]
        fn read_dir_files(&self, path: &Path, wanted: &dyn Fn(&Path, FileKind) -> bool) -> io::Result<Vec<FolderItem>> {
            linux::read_dir_files(self, path, wanted)
        }

        #[cfg(not(target_os = "linux"))]
        fn read_dir_files(&self, path: &Path, wanted: &dyn Fn(&Path, FileKind) -> bool) -> io::Result<Vec<FolderItem>> {
            let (mut items, mut files) = (Vec::new(), Vec::new());
            for item in fs::read_dir(path)? {
                let item = item?;
                let (path, kind) = (item.path(), kind_of(item.file_type()?));
                match kind {
                    _ if !wanted(Path::new(&item.file_name()), kind) => {}
                    FileKind::File => files.push((path, item)),
                    FileKind::Folder | FileKind::Link | FileKind::Other => items.push(FolderItem { path, kind, meta: None }),
                }
            }
            // Asked by the handle of the folder, where the system can.
            let metas = map_on_all_cores(&files, FILES_A_THREAD, &|(_, item)| item.metadata().ok().map(|meta| meta_of(&meta)));
            for ((path, _), meta) in files.into_iter().zip(metas) {
                items.extend(meta.map(|meta| FolderItem { path, kind: meta.kind, meta: Some(meta) }));
            }
            Ok(items)
        }

        fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            {
                use std::os::unix::fs::DirBuilderExt as _;
                builder.mode(0o700);
            }
            builder.create(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            fs::rename(from, to)
        }

        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            fs::hard_link(from, to)
        }

        fn remove_file(&self, path: &Path) -> io::Result<()> {
            fs::remove_file(path)
        }

        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            // Windows has no handle of a folder to sync.
            if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
        }

        fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
            fs::canonicalize(path)
        }
    }

    /// What Linux does for less: it tells of many files without a path, and of a file only what is asked for.
    #[cfg(target_os = "linux")]
    mod linux {
        use std::ffi::{CStr, OsStr, OsString};
        use std::io;
        use std::os::fd::{AsFd as _, BorrowedFd};
        use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
        use std::path::{Path, PathBuf};

        use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, makedev, statx};
        use rustix::io::Errno;

        use super::{FILES_A_THREAD, FileKind, FileMeta, FolderItem, Fs, StdFs};
        use crate::storage::cores::map_on_all_cores;

        pub(super) const WITHOUT_TIMES: StatxFlags =
            StatxFlags::TYPE.union(StatxFlags::MODE).union(StatxFlags::INO).union(StatxFlags::SIZE);

        const TIMES: StatxFlags = StatxFlags::MTIME.union(StatxFlags::CTIME);

        /// What the system reads of a folder at once, in bytes.
        const BLOCK_BYTES: usize = 64 * 1024;

        fn kind_of(file_type: FileType) -> FileKind {
            match file_type {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Folder,
                FileType::Symlink => FileKind::Link,
                _ => FileKind::Other,
            }
        }

        /// What `statx` told; `None` when the system or the file system does not know this way of asking.
        pub(super) fn meta_of(found: Result<Statx, Errno>, times: StatxFlags) -> io::Result<Option<FileMeta>> {
            let found = match found {
                Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(WITHOUT_TIMES | times) => found,
                Ok(_) | Err(Errno::NOSYS) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let ns = |seconds: i64, ns: u32| match times.is_empty() {
                true => 0,
                false => i128::from(seconds) * 1_000_000_000 + i128::from(ns),
            };
            Ok(Some(FileMeta {
                len: found.stx_size,
                modified_ns: ns(found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
                changed_ns: ns(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
                identity: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
                mode: u32::from(found.stx_mode) & 0o7777,
                kind: kind_of(FileType::from_raw_mode(found.stx_mode.into())),
            }))
        }

        /// `lstat` of what has this name in the folder; `None` if it is not there.
        fn meta_in(fs: &StdFs, folder: BorrowedFd<'_>, name: &CStr, path: &Path) -> Option<FileMeta> {
            match meta_of(statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, WITHOUT_TIMES | TIMES), TIMES) {
                Ok(Some(meta)) => Some(meta),
                Ok(None) => fs.link_metadata(path).ok(),
                Err(_) => None,
            }
        }

        /// Files are asked for by the handle of the folder, and a name is copied only into its path.
        pub(super) fn read_dir_files(
            fs: &StdFs,
            folder: &Path,
            wanted: &dyn Fn(&Path, FileKind) -> bool,
        ) -> io::Result<Vec<FolderItem>> {
            let handle = rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let path_of = |name: &CStr| {
                let (folder, name) = (folder.as_os_str().as_bytes(), name.to_bytes());
                let mut path = Vec::with_capacity(folder.len() + 1 + name.len());
                path.extend_from_slice(folder);
                if folder.last().is_some_and(|last| *last != b'/') {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                PathBuf::from(OsString::from_vec(path))
            };
            // Names with their NULs, one after another, and where each begins.
            let (mut names, mut starts) = (Vec::new(), Vec::new());
            let mut items = Vec::new();
            let mut block = Vec::with_capacity(BLOCK_BYTES);
            let mut entries = RawDir::new(&handle, block.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let kind = match entry.file_type() {
                    // Some file systems do not tell.
                    FileType::Unknown => match meta_in(fs, handle.as_fd(), name, &path_of(name)) {
                        Some(meta) => meta.kind,
                        None => continue,
                    },
                    file_type => kind_of(file_type),
                };
                match kind {
                    _ if !wanted(Path::new(OsStr::from_bytes(name.to_bytes())), kind) => {}
                    FileKind::File => {
                        starts.push(names.len());
                        names.extend_from_slice(name.to_bytes_with_nul());
                    }
                    FileKind::Folder | FileKind::Link | FileKind::Other => {
                        items.push(FolderItem { path: path_of(name), kind, meta: None });
                    }
                }
            }
            let file = |start: &usize| {
                let name = CStr::from_bytes_until_nul(&names[*start..]).ok()?;
                let path = path_of(name);
                let meta = meta_in(fs, handle.as_fd(), name, &path)?;
                Some(FolderItem { path, kind: meta.kind, meta: Some(meta) })
            };
            items.reserve(starts.len());
            match starts.len() <= FILES_A_THREAD {
                true => items.extend(starts.iter().filter_map(file)),
                false => items.extend(map_on_all_cores(&starts, FILES_A_THREAD, &file).into_iter().flatten()),
            }
            Ok(items)
        }
    }

    impl FsFile for StdFile {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            #[cfg(unix)]
            return std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset);
            #[cfg(windows)]
            return std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset);
        }

        fn append(&self, bytes: &[u8]) -> io::Result<usize> {
            (&self.0).write(bytes)
        }

        #[cfg(unix)]
        fn appended_end(&self) -> io::Result<u64> {
            // With `O_APPEND` a write moves the position to the end before it, and nothing else here moves it. Asking for
            // it costs a quarter of a `stat`.
            (&self.0).stream_position()
        }

        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn metadata(&self) -> io::Result<FileMeta> {
            self.0.metadata().map(|meta| meta_of(&meta))
        }

        fn set_mode(&self, mode: u32) -> io::Result<()> {
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                self.0.set_permissions(fs::Permissions::from_mode(mode))?;
            }
            let _ = mode;
            Ok(())
        }

        fn lock(&self) -> io::Result<()> {
            self.0.lock()
        }

        fn try_lock(&self) -> io::Result<bool> {
            match self.0.try_lock() {
                Ok(()) => Ok(true),
                Err(TryLockError::WouldBlock) => Ok(false),
                Err(TryLockError::Error(error)) => Err(error),
            }
        }

        fn try_lock_shared(&self) -> io::Result<bool> {
            match self.0.try_lock_shared() {
                Ok(()) => Ok(true),
                Err(TryLockError::WouldBlock) => Ok(false),
                Err(TryLockError::Error(error)) => Err(error),
            }
        }

        fn unlock(&self) -> io::Result<()> {
            self.0.unlock()
        }
    }
}
