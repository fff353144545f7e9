//! Foreign lines: output of Python, servers and tt-metal between the runtime's lines.
//!
//! Some of them are traps: they contain the runtime's words without being its lines.

use crate::random::Random;

/// Lines with placeholders `NN` and `MMM` for numbers.
const LINES: [&str; 16] = [
    "",
    "INFO 03-16 10:31:NN [engine.py:163] step NN took 0.MMM s",
    "2026-03-16 10:31:08.MMM | info     |          Device | Opened the driver of chip NN (cluster.cpp:451)",
    "2026-03-16 10:31:08.MMM | warning  |           Metal | Allocating device buffers is potentially \
     unsafe due to the existence of an active trace.",
    " NN%|####      | NN/100 [00:01<00:09,  2.31it/s]",
    "\r NN%|##        | NN/100 [00:01<00:09,  2.31it/s]\r NN%|##2       | NN/100 [00:01<00:09,  2.31it/s]",
    "(EngineCore_DP0 pid=230) DEBUG 03-16 10:31:08 [core.py:77] asked worker NN for its memory state",
    "DEBUG:torch_xla:Executing operation: aten::add.NN on xla:0",
    "[watchdog] Device memory state before operation NN was not reported within MMM ms",
    "WARNING: Executing operation NN took MMM ms, see the memory state above",
    "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:NN: UserWarning: a buffer was not used",
    "Starting execution of program: nothing | DEBUG | NN",
    "{\"event\": \"step\", \"n\": NN, \"ms\": MMM, \"note\": \"Device DRAM memory state unknown\"}",
    "Got output shape: torch.Size([NN, MMM])",
    "Traceback (most recent call last): ignored, retry NN",
    "%NN = \"ttnn.add\"(%1, %2) is slow, says the tuner",
];

/// Writes one foreign line, without its line ending.
pub fn write_foreign_line(out: &mut Vec<u8>, random: &mut Random) {
    let number = random.between(10, 59).to_string();
    let millis = random.between(100, 999).to_string();
    let line = random.pick(&LINES).replace("NN", &number).replace("MMM", &millis);
    out.extend_from_slice(line.as_bytes());
}
