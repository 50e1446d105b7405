//! What network namespaces need: two capabilities, or a user namespace in which any user has them.
//!
//! The user keeps their own id there, so that files, processes and targets are theirs as before, and
//! what is started has no privilege that its user has not. Only `ip` and its kind are given the two, as
//! ambient capabilities. iproute2 names namespaces in `/run/netns`, which a user can't write: a tmpfs of
//! our own lies over it. All of it goes with the process, however that ends.
//!
//! Source: user_namespaces(7), capabilities(7), mount_namespaces(7).

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::lay_error::LayError;
use crate::netns::{FOLDER, Ip};
use crate::sys;

/// Source: linux/capability.h: one makes devices and addresses, the other namespaces and mounts.
const NEEDED: [(CapabilitySet, &str); 2] =
    [(CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"), (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN")];

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Makes this process able to lay namespaces: nothing to do for root; any other user's process enters a
/// user namespace of its own. Paths of the host stay as they are, but for what is in `/run/netns`.
///
/// To be called from `main`, before there is a second thread: only then does the kernel allow it.
pub fn acquire_privileges(verbose: bool) -> Result<(), LayError> {
    let Some(missing) = missing() else { return Ok(()) };
    let ip = Ip { verbose };
    ip.say("unshare --user --map-current-user --keep-caps --mount sh # for all that follows");
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    sys::unshare_user_and_mounts().map_err(|error| refused(missing, error))?;
    for (file, line) in [
        // Source: user_namespaces(7): without it no group may be mapped.
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(file, line).map_err(|error| refused(missing, errno(&error)))?;
    }
    ENTERED.store(true, Ordering::Relaxed);
    cover_run(ip).map_err(LayError::system(format!("laying a {FOLDER} of our own")))?;
    check()
}

/// Whether this process entered a user namespace of its own: the network it was started in is not its to
/// change.
pub(crate) fn entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Refuses to lay namespaces without the capabilities.
pub(crate) fn check() -> Result<(), LayError> {
    missing().map_or(Ok(()), |missing| Err(LayError::NotPrivileged(missing)))
}

/// The first needed capability that this thread has not.
fn missing() -> Option<&'static str> {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    NEEDED.into_iter().find(|(needed, _)| !effective.contains(*needed)).map(|(_, name)| name)
}

/// Starts `ip` or one of its kind, with the two capabilities: an ordinary user's process would lose them
/// with the new program.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    if geteuid().is_root() {
        return command.spawn();
    }
    // Capabilities are a thread's own, so they are raised on one that starts this and nothing else.
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            hand_down();
            command.spawn()
        });
        starter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Lets programs that this thread starts have the two capabilities. Root's have them anyway.
pub(crate) fn hand_down() {
    if geteuid().is_root() {
        return;
    }
    // If something is refused, so will the program be, which says in which words.
    if let Ok(mut sets) = capabilities(None) {
        let needed = NEEDED.map(|(needed, _)| needed);
        sets.inheritable |= sets.permitted & (needed[0] | needed[1]);
        let _ = set_capabilities(None, sets);
        for needed in needed {
            let _ = configure_capability_in_ambient_set(needed, true);
        }
    }
}

/// Lays an empty folder over iproute2's, or where there is none, over the one above with all else that is
/// in it shown again.
fn cover_run(ip: Ip) -> io::Result<()> {
    let folder = Path::new(FOLDER);
    if folder.is_dir() {
        ip.say(&format!("mount -t tmpfs tmpfs {FOLDER}"));
        return lay_over(folder);
    }
    let run = folder.parent().unwrap_or(folder);
    ip.say(&format!("mount -t tmpfs tmpfs {} # and bind what was in it", run.display()));
    let covered = rustix::fs::open(run, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // A descriptor is the way to what a mount will cover.
    let below = Path::new("/proc/self/fd").join(covered.as_raw_fd().to_string());
    let names: Vec<_> = fs::read_dir(run)?.flatten().map(|entry| entry.file_name()).collect();
    lay_over(run)?;
    for name in names {
        // What can't be shown again is missed by nobody who is started here.
        let _ = show_again(&below.join(&name), &run.join(&name));
    }
    fs::create_dir(folder)
}

fn lay_over(folder: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("tmpfs", folder, "tmpfs", flags, c"mode=0755")?)
}

fn show_again(below: &Path, above: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(below)?.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(below)?, above);
    }
    if kind.is_dir() {
        fs::create_dir(above)?;
    } else {
        fs::File::create(above)?;
    }
    Ok(mount_bind_recursive(below, above)?)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PERM)
}

fn refused(missing: &'static str, error: Errno) -> LayError {
    // Source: unshare(2): the caller has several threads.
    if error == Errno::INVAL {
        return LayError::NotPrivileged(missing);
    }
    let read = |file: &str| fs::read_to_string(Path::new("/proc/sys").join(file)).ok();
    let (reason, advice) = why(error, &read);
    LayError::NoUserNamespace { missing, reason, advice }
}

/// Why there is no user namespace, by what the kernel answered and its settings say; and what to do.
fn why(error: Errno, setting: &dyn Fn(&str) -> Option<String>) -> (String, String) {
    // Source: Debian's and Arch's kernels; Ubuntu's; sysctl/user.rst: none may be made where it is 0.
    let switches = [
        ("user/max_user_namespaces", "0", "15000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let is = |name: &str, value: &str| setting(name).is_some_and(|it| it.trim() == value);
    match switches.into_iter().find(|(name, off, _)| is(name, off)) {
        Some((name, off, on)) => {
            let name = name.replace('/', ".");
            (format!("{name} is {off}"), format!("`sysctl -w {name}={on}` as root"))
        }
        None if error == Errno::NOSPC => (
            "as many as user.max_user_namespaces allows are in use".into(),
            "raise that as root".into(),
        ),
        None => (
            std::io::Error::from(error).to_string(),
            "leave the container or its seccomp profile that forbids it".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_user_namespaces_is_named_with_what_to_write() {
        let of = |name: &'static str, value: &'static str| {
            why(Errno::PERM, &move |asked| (asked == name).then(|| format!("{value}\n")))
        };
        for (name, off, on) in [
            ("kernel/unprivileged_userns_clone", "0", "1"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
            ("user/max_user_namespaces", "0", "15000"),
        ] {
            let (reason, advice) = of(name, off);
            let name = name.replace('/', ".");
            assert_eq!(reason, format!("{name} is {off}"));
            assert_eq!(advice, format!("`sysctl -w {name}={on}` as root"));
        }
        let (reason, advice) = of("user/max_user_namespaces", "96365");
        assert!(reason.contains("not permitted") && advice.contains("container"), "{reason}");
    }

    #[test]
    fn without_the_capabilities_a_user_is_told_which_is_missing_and_what_to_do() {
        let error = LayError::NoUserNamespace {
            missing: "CAP_NET_ADMIN",
            reason: "user.max_user_namespaces is 0".into(),
            advice: "`sysctl -w user.max_user_namespaces=15000` as root".into(),
        };
        assert_eq!(
            error.to_string(),
            "a path needs network namespaces, and this process has no CAP_NET_ADMIN and may make no \
             user namespace: user.max_user_namespaces is 0; run as root, or \
             `sysctl -w user.max_user_namespaces=15000` as root, or leave [path] out"
        );
    }
}
