//! ffmpeg encoding on several threads: the checksum of what it makes is that of a plain run.

use std::process::Command;

use crate::support::{Folder, find, skip};

#[test]
fn ffmpeg_encodes_the_same() {
    if find("ffmpeg").is_none() {
        skip!("ffmpeg is not installed and could not be");
    }
    let folder = Folder::new("ffmpeg");
    let run = |mut command: Command| {
        command.args(["-v", "error", "-nostdin", "-f", "lavfi", "-i"]);
        command.args(["testsrc2=duration=1:size=320x180:rate=25", "-f", "lavfi", "-i"]);
        command.args(["sine=duration=1", "-c:v", "mpeg4", "-threads", "4", "-c:a", "aac"]);
        command.args(["-f", "md5", "-"]);
        folder.run(command)
    };
    let plain = run(folder.plain("ffmpeg"));
    assert!(plain.status.success() && plain.output.starts_with("MD5="), "{plain:?}");
    run(folder.under(&[], "ffmpeg")).same_as(&plain);
    let observed = folder.report();
    observed.check();
    assert!(observed.created() >= 4, "{}", observed.0);
    run(folder.under(&["--stacks", "auto"], "ffmpeg")).same_as(&plain);
    let tuned = folder.report();
    tuned.check();
    crate::report::check_tuned(&observed, &tuned, 20);
}
