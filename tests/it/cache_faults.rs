//! A list and a search give the answers that they give without a cache, whatever became of the cache: its writer killed,
//! the disk full, its files cut, zeroed or overwritten, its folder not there or no folder.
//!
//! SQLite does its own input and output, so a death is a real one: of a child, at a limit of the file size or by a kill.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use pi_sessions::storage::fs::StdFs;
use pi_sessions::storage::index::ListingCache;
use pi_sessions::storage::search::{Query, SearchIndex, SearchOptions};

use crate::support::counting_fs::settled_repo;
use crate::support::told;

const ROOT: &str = "PI_SESSIONS_TEST_CACHED_ROOT";
const CACHE: &str = "PI_SESSIONS_TEST_CACHE";

const WORDS: [&str; 8] = ["parser", "login", "table", "error", "日本", "write", "panic", "slash"];

/// A root of sessions and a cache folder.
struct Place {
    folder: tempfile::TempDir,
    appended: usize,
}

impl Place {
    fn new(sessions: usize) -> Self {
        let mut place = Self { folder: tempfile::tempdir().expect("a folder"), appended: 0 };
        for number in 0..sessions {
            let path = place.session(number);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let header = format!(
                "{{\"type\":\"session\",\"version\":3,\"id\":\"s{number}\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/p\"}}\n"
            );
            fs::write(path, header).expect("a file");
            place.append(number, 6);
        }
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn session(&self, number: usize) -> PathBuf {
        self.root().join("--p--").join(format!("2026-01-01T00-00-00-000Z_s{number}.jsonl"))
    }

    fn append(&mut self, number: usize, messages: usize) {
        let mut file = fs::File::options().append(true).open(self.session(number)).expect("a session");
        for _ in 0..messages {
            self.appended += 1;
            let id = self.appended;
            let words: Vec<_> = (0..20).map(|at| WORDS[(id * 7 + at * at) % WORDS.len()]).collect();
            let text = format!("{} number {id}", words.join(" "));
            writeln!(
                file,
                "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":{id}}}}}"
            )
            .expect("a line");
        }
    }

    /// A child that lists and searches with the cache.
    fn child(&self, before: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = format!("ulimit -c 0; {before} exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "cache_faults::child", "--test-threads=1"]);
        command.env(ROOT, self.root()).env(CACHE, self.cache());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn cache_len(&self) -> u64 {
        let items = fs::read_dir(self.cache()).into_iter().flatten();
        items.filter_map(|item| Some(item.ok()?.metadata().ok()?.len())).sum()
    }
}

fn use_cache(root: &Path, cache: &Path) {
    let repo = settled_repo(Arc::new(StdFs), root);
    repo.list_cached(&ListingCache::new(cache.to_owned()), &|_| {}).expect("a root");
    let query = Query::words("parser").expect("words");
    repo.search_indexed(&SearchIndex::new(cache.to_owned()), &query, &SearchOptions::default(), &|_| {}).expect("a root");
}

/// What a child does.
#[test]
#[expect(clippy::disallowed_methods, reason = "how a child is told its task")]
fn child() {
    if let (Ok(root), Ok(cache)) = (std::env::var(ROOT), std::env::var(CACHE)) {
        use_cache(Path::new(&root), Path::new(&cache));
    }
}

/// Both answers are those without a cache, twice.
fn check(root: &Path, cache: &Path, what: &str) {
    let repo = settled_repo(Arc::new(StdFs), root);
    let listing = ListingCache::new(cache.to_owned());
    let index = SearchIndex::new(cache.to_owned());
    for text in ["\"login table\"", "日本 OR pan*"] {
        let (cached, plain) = (repo.list_cached(&listing, &|_| {}).expect(what), repo.list(&|_| {}).expect(what));
        assert_eq!(cached.sessions, plain.sessions, "{what}");
        assert_eq!(format!("{:?}", cached.skipped), format!("{:?}", plain.skipped), "{what}");
        let (query, options) = (Query::words(text).expect("words"), SearchOptions { limit: Some(20), ..Default::default() });
        let indexed = repo.search_indexed(&index, &query, &options, &|_| {}).expect(what);
        assert_eq!(indexed.hits, repo.search_scan(&query, &options, &|_| {}).expect(what).hits, "{what}: {text}");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder");
    for item in fs::read_dir(from).into_iter().flatten() {
        let path = item.expect("an item").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

#[test]
#[cfg(unix)]
fn a_writer_of_the_cache_that_dies_or_has_no_room_is_no_matter() {
    let mut place = Place::new(10);
    let (mut deaths, mut refusals, mut leftovers) = (0, 0, 0);
    for blocks in (0..40).step_by(2).chain((41..420).step_by(19)) {
        // Sometimes on an empty cache, else on one that was used and is behind.
        if blocks % 4 == 0 {
            let _ = fs::remove_dir_all(place.cache());
        } else {
            place.append(blocks % 10, 3);
        }
        for trap in ["", "trap '' XFSZ;"] {
            let status = place.child(&format!("{trap} ulimit -f {blocks};")).status().expect("a child");
            deaths += usize::from(trap.is_empty() && !status.success());
            refusals += usize::from(!trap.is_empty());
            assert!(trap.is_empty() || status.success(), "{blocks} blocks: a full disk is no error");
            leftovers += fs::read_dir(place.cache()).into_iter().flatten().count();
            let image = place.folder.path().join("image");
            copy_folder(&place.cache(), &image);
            check(&place.root(), &image, &format!("{blocks} blocks {trap}"));
        }
    }
    check(&place.root(), &place.cache(), "at the end");
    told(&format!("{deaths} deaths, {refusals} full disks"));
    assert!(deaths > 20 && leftovers > 40, "{deaths} {leftovers}");
}

#[test]
#[cfg(unix)]
fn a_killed_writer_of_the_cache_is_no_matter() {
    let mut place = Place::new(10);
    let whole = {
        assert!(place.child("").status().expect("a child").success());
        place.cache_len()
    };
    let mut killed = 0;
    // On a busy machine many a kill comes too late.
    for kill in (0..30).cycle().take(300) {
        if killed > 10 && kill == 0 {
            break;
        }
        if kill % 2 == 0 {
            let _ = fs::remove_dir_all(place.cache());
        }
        place.append(kill % 10, 5);
        let mut child = place.child("").spawn().expect("a child");
        let from = if kill % 2 == 0 { whole * kill as u64 / 33 } else { place.cache_len() + kill as u64 * 400 };
        while place.cache_len() < from && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("a child");
        killed += usize::from(!child.wait().expect("a child").success());
        check(&place.root(), &place.cache(), &format!("kill {kill}"));
    }
    told(&format!("{killed} kills in the middle"));
    assert!(killed > 10, "{killed}");
}

/// Something done to the bytes of a file.
fn harm(bytes: &mut Vec<u8>, kind: usize, at: usize) {
    let at = bytes.len() * at / 8;
    let end = bytes.len().min(at + [40, 700, 5_000, 40_000][kind % 4]);
    match kind {
        0..4 => bytes[at..end].fill(0),
        4..8 => bytes[at..end].iter_mut().enumerate().for_each(|(place, byte)| *byte ^= (place as u8).wrapping_mul(37) | 1),
        8 => bytes.truncate(at),
        9 => bytes.extend_from_slice(&vec![0; 20_000]),
        _ => *bytes = vec![b'x'; at],
    }
}

#[test]
#[cfg(unix)]
fn damaged_files_of_the_cache_are_no_matter() {
    let mut place = Place::new(8);
    let image = place.folder.path().join("image");
    let mut snapshots = Vec::new();
    for blocks in [90, 200, 100_000] {
        place.append(blocks % 8, 4);
        let _ = place.child(&format!("ulimit -f {blocks};")).status().expect("a child");
        let snapshot = place.folder.path().join(format!("snapshot-{blocks}"));
        copy_folder(&place.cache(), &snapshot);
        snapshots.push(snapshot);
    }
    let mut images = 0;
    for (number, snapshot) in snapshots.iter().enumerate() {
        let names: Vec<_> = fs::read_dir(snapshot).expect("a folder").map(|item| item.expect("an item").file_name()).collect();
        for (at, name) in names.iter().enumerate() {
            for kind in 0..11 {
                // Another place in each file, so that all are met.
                let at = (number * 3 + at + kind * 5) % 8;
                copy_folder(snapshot, &image);
                let path = image.join(name);
                let mut bytes = fs::read(&path).expect("a file");
                harm(&mut bytes, kind, at);
                fs::write(&path, &bytes).expect("a file");
                check(&place.root(), &image, &format!("{}, harm {kind} at {at}/8 of {name:?}", snapshot.display()));
                images += 1;
            }
            copy_folder(snapshot, &image);
            fs::remove_file(image.join(name)).expect("a file");
            check(&place.root(), &image, &format!("{} without {name:?}", snapshot.display()));
            images += 1;
        }
    }
    told(&format!("{images} images"));
    // A list and an index in each folder, and what their journals left.
    assert!(images >= 3 * 2 * 12, "{images}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_cache_folder_that_cannot_be_one_is_no_matter() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let place = Place::new(6);
    let at = |name: &str| place.folder.path().join(name);
    check(&place.root(), &at("not/there/yet"), "missing");
    fs::write(at("file"), "x").expect("a file");
    check(&place.root(), &at("file"), "a file");
    check(&place.root(), &at("file/below"), "below a file");
    symlink("loop", at("loop")).expect("a link");
    check(&place.root(), &at("loop"), "a loop");
    check(&place.root(), Path::new("/proc"), "where nobody makes a file");
    check(&place.root(), Path::new("/dev/full"), "a device");

    // Who is root may write all the same; then it is a cache as any.
    use_cache(&place.root(), &at("read-only"));
    for item in fs::read_dir(at("read-only")).expect("a folder") {
        fs::set_permissions(item.expect("an item").path(), fs::Permissions::from_mode(0o400)).expect("a file of ours");
    }
    fs::set_permissions(at("read-only"), fs::Permissions::from_mode(0o500)).expect("a folder of ours");
    check(&place.root(), &at("read-only"), "read only");
    fs::set_permissions(at("read-only"), fs::Permissions::from_mode(0o700)).expect("a folder of ours");

    // What stands where the store should be, and where its log should be.
    use_cache(&place.root(), &at("names"));
    let names: Vec<_> = fs::read_dir(at("names")).expect("a folder").map(|item| item.expect("an item").file_name()).collect();
    for end in ["", "-wal", "-shm", "-journal"] {
        for what in ["folder", "device", "nothing", "loop"] {
            let cache = at("harmed");
            copy_folder(&at("names"), &cache);
            for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".sqlite")) {
                let path = cache.join(format!("{}{end}", name.to_string_lossy()));
                let _ = fs::remove_file(&path);
                match what {
                    "folder" => fs::create_dir(&path).expect("a folder"),
                    "device" => symlink("/dev/full", &path).expect("a link"),
                    "nothing" => symlink("/not/there", &path).expect("a link"),
                    _ => symlink(&path, &path).expect("a link"),
                }
            }
            check(&place.root(), &cache, &format!("a {what} at .sqlite{end}"));
        }
    }
}
