//! Deaths and errors in a repair and in a compaction.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pi_sessions::agent::AgentHarness;
use pi_sessions::agent::harness::{CompactOptions, HarnessOptions, SummaryBy};
use pi_sessions::llm::scripted::Scripted;
use pi_sessions::storage::fs::Fs;
use pi_sessions::storage::repair::{IfHeld, repair_file};
use pi_sessions::storage::{Durability, StorageError};

use super::{FILE, TORN, V1, V2, V3, World, check, repo, sweep, user};
use crate::support::fault_fs::{Fault, FaultFs, PowerCut};

/// Damage that leaves lines to be had: a torn line, two records in one, NULs, a parent that is gone, a ring.
fn damaged() -> Vec<String> {
    let lines: Vec<_> = V3.lines().collect();
    let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let ring = V3.replace(r#""id":"aaaaaaa1","parentId":null"#, r#""id":"aaaaaaa1","parentId":"aaaaaaa3""#);
    vec![
        join(&[lines[0], lines[1], TORN, lines[2], lines[3], lines[4]]),
        join(&[lines[0], lines[1], &format!("{}{}", lines[2], lines[3]), lines[4]]),
        join(&[lines[0], lines[1], &format!("{}\0\0\0\0", lines[2]), "\0\0\0\0", lines[3], lines[4]]),
        join(&[lines[0], lines[1], lines[3], lines[4]]),
        ring,
        format!("{V1}{TORN}"),
        format!("{V2}{TORN}"),
    ]
}

/// A world with a damaged session, which knows how its lines read when they are mended.
fn world_with(bytes: &str) -> World {
    let mended = World::with(bytes);
    let fs: Arc<dyn Fs> = Arc::new(mended.fs.clone());
    repair_file(&fs, Path::new(FILE), IfHeld::Refuse).expect("a repair");
    let mended = World::with(&String::from_utf8(mended.fs.get(Path::new(FILE)).expect("the file")).expect("text"));
    let mut world = World::with(bytes);
    world.mended = mended.acknowledged;
    world
}

fn repair(world: &World) -> Result<(), StorageError> {
    let fs: Arc<dyn Fs> = Arc::new(world.fs.clone());
    let repaired = repair_file(&fs, Path::new(FILE), IfHeld::Refuse)?;
    assert!(!repaired.actions.is_empty() && repaired.backup.is_some(), "{repaired:?}");
    Ok(())
}

#[test]
fn repairs_survive_every_fault() {
    for bytes in damaged() {
        sweep(&|| world_with(&bytes), &|world| {
            repair(world)?;
            let mut session = world.open()?;
            assert_eq!(session.read().damage(), []);
            Ok(world.append(&mut session, &["[a]"])?)
        });
    }
}

#[test]
fn a_repair_keeps_the_old_bytes_whatever_happens() {
    let mut deaths = 0;
    for bytes in damaged() {
        for at in 1.. {
            let world = World::with(&bytes);
            world.fs.fail_at(at, Fault::Death);
            let _ = repair(&world);
            for cut in PowerCut::all() {
                let after = world.fs.after_crash(cut);
                let is_there = after.names().iter().any(|name| after.get(name).is_some_and(|held| held == bytes.as_bytes()));
                assert!(is_there, "call {at}, {cut:?}: {:?}", after.names());
            }
            if !world.fs.is_dead() {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 100, "{deaths}");
}

#[test]
fn a_repair_takes_in_what_a_program_without_a_lock_appends_at_any_moment() {
    let theirs = r#"{"type":"message","id":"bbbbbbb1","parentId":"aaaaaaa3","timestamp":"t","message":{"role":"user","content":"[theirs]"}}"#;
    let bytes = damaged().remove(0);
    let mut in_file = 0;
    for at in 1.. {
        let mut world = world_with(&bytes);
        world.fs.fail_at(at, Fault::Intruder(FILE.into(), format!("{theirs}\n").into_bytes()));
        let calls = world.fs.calls();
        repair(&world).expect("no fault");
        if world.fs.calls() - calls < at {
            break;
        }
        let holds =
            |path: &str| world.fs.get(Path::new(path)).is_some_and(|bytes| bytes.ends_with(format!("{theirs}\n").as_bytes()));
        // Between the last look and the rename nothing helps against a program that takes no lock; then it is in the backup.
        assert!(holds(FILE) || holds(&format!("{FILE}.bak")), "call {at}: {:?}", world.fs.names());
        in_file += usize::from(holds(FILE));
        check(&mut world, &format!("an intruder at call {at}"));
    }
    assert!(in_file > 10, "{in_file}");
}

/// Compacts without a model.
fn compact(world: &mut World) -> Result<(), Box<dyn std::error::Error>> {
    let fs: Arc<dyn Fs> = Arc::new(world.fs.clone());
    let mut options = HarnessOptions::new(Arc::new(Scripted::new([])), Scripted::model());
    options.fs = fs;
    let session = world.open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let harness = AgentHarness::new(session, options)?;
        let order = || CompactOptions { keep_tokens: Some(0), by: Some(SummaryBy::Extractive), ..CompactOptions::default() };
        let mut made = harness.compact(order()).await;
        if made.is_err() && world.retries && !world.fs.is_dead() {
            world.fs.heal();
            made = match made {
                Err(error) if format!("{error:?}").contains("SyncFailed") => Err(error),
                _ => Ok(harness.compact(order()).await.expect("the second time there is no fault")),
            };
        }
        let done = made?;
        harness.with_session(|session| {
            let found = session.tree().find(done.id.as_str()).expect("a compaction that was told is in the tree");
            world.acknowledge(session, [found]);
        });
        harness.close()?;
        Ok(())
    })
}

#[test]
fn compactions_survive_every_fault() {
    let long = V3.replace("[one]", &format!("[{}]", "one two three ".repeat(400)));
    let torn = format!("{long}{TORN}");
    for bytes in [long, torn] {
        sweep(&|| World::with(&bytes), &|world| {
            compact(world)?;
            let mut session = repo(&world.fs).open(Path::new(FILE))?;
            session.append(vec![user("[after the compaction]")], Durability::Synced)?;
            Ok(world.append(&mut session, &["[a]"])?)
        });
    }
}

#[test]
fn a_full_world_says_so_and_goes_on_when_there_is_room() {
    let world = World::new(FaultFs::default());
    world.fs.put(Path::new(FILE), V3.as_bytes());
    let mut session = world.open().expect("a session");
    world.fs.fail_at(1, Fault::FullFrom);
    let error = session.append(vec![user("[a]")], Durability::Synced).expect_err("the disk is full");
    assert!(error.to_string().contains(FILE), "{error}");
    world.fs.heal();
    session.append(vec![user("[a]")], Durability::Synced).expect("there is room");
}

#[test]
fn who_takes_a_session_file_away_holds_its_lock_until_no_look_at_the_path_holds() {
    type Taking = fn(&mut World);
    let takings: [(&str, Taking); 5] = [
        (V3, |world| drop(world.repo.relocate(Path::new(FILE), "/p").expect("a rewrite"))),
        (V3, |world| drop(world.repo.relocate(Path::new(FILE), "/q").expect("a move"))),
        (V3, |world| drop(world.repo.delete(Path::new(FILE)).expect("a delete"))),
        (V1, |world| drop(world.open().expect("a session").append(vec![user("a")], Durability::Synced).expect("an upgrade"))),
        (&format!("{V3}{TORN}"), |world| repair(world).expect("a repair")),
    ];
    for (number, (bytes, taking)) in takings.into_iter().enumerate() {
        let mut world = World::with(bytes);
        taking(&mut world);
        let held: Vec<_> = world.fs.taken_away();
        assert_eq!(held.len(), 1, "{number}");
        assert!(held[0] >= Some(Duration::from_millis(1)), "{number}: {held:?}");
    }
}
