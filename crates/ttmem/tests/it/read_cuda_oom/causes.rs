//! What holds the memory, what to do about it, and messages that are wrapped or that the program survived.

use serde_json::Value;
use ttmem::query::filter::Filter;
use ttmem::query::{self, GroupBy, Request};

use super::{MESSAGES, V2_2, XPU_OLD, advice, cause, ledger, oom, opened, parts, with};

const IN_PROCESS: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 15.77 GiB of which 6.88 MiB is free. Process 2209 has 15.76 GiB memory in use. Of the allocated memory 1.20 GiB is allocated by PyTorch, and 21.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
const IN_OTHERS: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 3 has a total capacity of 79.11 GiB of which 283.56 MiB is free. Process 41231 has 8.20 GiB memory in use. Process 99999 has 20.00 GiB memory in use. Including non-PyTorch memory, this process has 50.63 GiB memory in use. Of the allocated memory 41.50 GiB is allocated by PyTorch, with 6.25 GiB allocated in private pools (e.g., CUDA Graphs), and 1.94 GiB is reserved by PyTorch but unallocated.";
const FRAGMENTED: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.31 GiB is free. Including non-PyTorch memory, this process has 77.92 GiB memory in use. Of the allocated memory 60.12 GiB is allocated by PyTorch, and 17.05 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

fn headline(oom: &Value) -> &str {
    oom["headline"].as_str().unwrap()
}

// ---------------------------------------------------------------------------------------------- holders of the memory

#[test]
fn the_largest_holder_is_named_first() {
    let of_process = oom(IN_PROCESS);
    assert_eq!(cause(&of_process), "non_pytorch");
    assert_eq!(
        headline(&of_process),
        "Out of memory: this process holds 14.54 GiB of cuda:0 outside PyTorch."
    );
    let of_others = oom(IN_OTHERS);
    assert_eq!(cause(&of_others), "other_process");
    assert_eq!(headline(&of_others), "Out of memory: 2 other processes hold 28.20 GiB of cuda:3.");
    assert!(advice(&of_others).starts_with("Stop the other processes"), "{of_others}");
    for oom in [of_process, of_others] {
        assert!(!advice(&oom).contains("expandable"), "{oom}");
    }
    let oom = oom(FRAGMENTED);
    assert_eq!((cause(&oom), advice(&oom).contains("expandable_segments:True")), ("fragmentation", true));
}

#[test]
fn unused_memory_of_the_allocator_must_be_relevant() {
    let with_unused = |unused: &str| oom(&V2_2.replace("40.28 MiB", unused).replace("77.91", "76.00"));
    // The request is 192 MiB, and a fiftieth of the device 1.58 GiB.
    assert_eq!(cause(&with_unused("1.57 GiB")), "capacity");
    assert_eq!(cause(&with_unused("1.59 GiB")), "fragmentation");
    // The allocator cannot reserve more than the device has.
    let oom = oom(
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 10.92 GiB total capacity; 9.94 GiB already allocated; 13.56 MiB free; 10.30 GiB cached)",
    );
    assert_eq!((cause(&oom), &oom["ledger"]["adds_up"]), ("capacity", &false.into()));
}

const NEARLY_FULL: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 5.19 MiB is free. Process 98765 has 22.31 GiB memory in use. Including non-PyTorch memory, this process has 1.30 GiB memory in use. Of the allocated memory 900.00 MiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated.";

/// PyTorch asks the driver for segments, and a driver cannot give its last memory.
#[test]
fn a_few_free_bytes_are_no_room() {
    let segment = oom(NEARLY_FULL);
    assert_eq!(cause(&segment), "other_process");
    let detail = |oom: &Value| oom["detail"].as_str().unwrap().to_owned();
    assert!(detail(&segment).contains("PyTorch needs 20.0 MiB from the driver"), "{segment}");
    let last = oom(&NEARLY_FULL.replace("2.00 MiB. GPU", "512 bytes. GPU"));
    assert_eq!(cause(&last), "other_process");
    assert!(detail(&last).contains("Nearly all memory of the device was in use."), "{last}");
    for oom in [segment, last] {
        assert!(advice(&oom).starts_with("Stop process 98765"), "{oom}");
    }
    let room = oom(&NEARLY_FULL.replace("5.19 MiB", "7.20 GiB").replace("22.31 GiB", "15.12 GiB"));
    assert_eq!((cause(&room), &room["advice"]), ("unknown", &Value::Null));
}

#[test]
fn a_cuda_context_is_not_the_cause() {
    let of = |outside: &str| {
        oom(&format!(
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; {outside} already \
             allocated; 17.06 MiB free; {outside} reserved in total by PyTorch)"
        ))
    };
    assert_eq!(cause(&of("6.98 GiB")), "capacity");
    assert_eq!(cause(&of("6.88 GiB")), "non_pytorch");
}

#[test]
fn listed_processes_that_may_be_this_one_are_named() {
    let oom = oom(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 79.33 GiB of \
         which 1.20 GiB is free. Process 10 has 40.00 GiB memory in use. Process 11 has 38.12 GiB memory in use. Of the \
         allocated memory 30.00 GiB is allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but unallocated.",
    );
    let detail = oom["detail"].as_str().unwrap();
    assert!(detail.contains("process 10 (40.00 GiB), process 11 (38.12 GiB)"), "{detail}");
}

/// Unused memory of the allocator would be enough, so a higher limit is not the only way.
#[test]
fn fragmentation_below_a_limit() {
    let message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.98 GiB. GPU 0 has a total capacity of 31.84 GiB of which 16.30 GiB is free. 17.51 GiB allowed; Of the allocated memory 6.74 GiB is allocated by PyTorch, and 7.02 GiB is reserved by PyTorch but unallocated.";
    let both = oom(message);
    assert_eq!(cause(&both), "memory_limit");
    assert!(both["detail"].as_str().unwrap().contains("7.02 GiB of that is reserved, but no tensor uses it"));
    assert!(advice(&both).contains("expandable_segments:True"), "{both}");
    assert!(advice(&both).contains("Or raise the limit by at least"), "{both}");
    let full = oom(&message.replace("16.30 GiB is free", "3.00 GiB is free"));
    assert!(advice(&full).contains("expandable_segments:True"), "{full}");
    assert!(!advice(&full).contains("limit"), "{full}");
    let used = oom(&message.replace("6.74", "13.00").replace("7.02", "0.76"));
    assert!(advice(&used).starts_with("Raise the limit"), "{used}");
}

#[test]
fn private_pools_are_not_counted_twice() {
    let oom = oom(IN_OTHERS);
    let labels: Vec<&str> = oom["ledger"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["label"].as_str().unwrap())
        .collect();
    assert_eq!(
        labels[..2],
        ["allocated by PyTorch, outside private pools", "in private pools (CUDA graphs)"]
    );
    assert_eq!(parts(&oom)[..2], with(&[("allocated", 36_096), ("private_pools", 6400)])[..]);
}

#[test]
fn xpu_without_its_free_memory() {
    let profile = opened(XPU_OLD);
    assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
    assert_eq!(ledger(&profile).ledger.free, None);
    // The request does not fit next to what PyTorch reserves.
    let oom = oom(XPU_OLD);
    assert_eq!((cause(&oom), &oom["free_per_bank"]), ("capacity", &Value::Null));
    assert_eq!(parts(&oom), with(&[("allocated", 13_987), ("unallocated", 289)]));
    let small = oom_of_small_request();
    assert_eq!((cause(&small), &small["advice"]), ("unknown", &Value::Null));
}

fn oom_of_small_request() -> Value {
    oom(&XPU_OLD.replace("3.91 GiB", "1.00 GiB"))
}

#[test]
fn a_message_says_how_to_find_the_tensors() {
    let oom = oom(V2_2);
    assert!(
        advice(&oom).contains("_record_memory_history()") && advice(&oom).contains("ttmem track"),
        "{oom}"
    );
    assert!(!advice(&oom).contains("live at the peak"), "{oom}");
}

#[test]
fn options_about_tensors_and_steps_are_refused() {
    let profile = opened(V2_2);
    let filter: Filter = "size > 1MiB".parse().unwrap();
    for (request, option) in [
        (Request { at: Some(0), ..Request::default() }, "--at"),
        (Request { filter: Some(filter), ..Request::default() }, "--where"),
        (Request { by: Some(GroupBy::Stack), ..Request::default() }, "--by"),
    ] {
        let error = query::summary(std::slice::from_ref(&profile), &request).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{option} needs ")), "{error}");
    }
}

// ---------------------------------------------------------------------------------------------- wrapped messages

/// A text broken into lines of a width, at blanks or anywhere.
fn wrapped(text: &str, width: usize, at_blanks: bool) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', '-']) {
        if at_blanks && lines.last().unwrap().len() + word.trim_end().len() > width {
            lines.push(String::new());
        }
        lines.last_mut().unwrap().push_str(word);
    }
    if at_blanks {
        return lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    }
    text.as_bytes()
        .chunks(width)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_wrapped_message_is_joined() {
    for message in MESSAGES.into_iter().chain([IN_PROCESS, IN_OTHERS, FRAGMENTED]) {
        let known = opened(message);
        for (width, at_blanks) in [(80, true), (100, true), (52, true), (80, false), (132, false)] {
            let text = wrapped(message, width, at_blanks);
            for text in [text.clone(), format!("[rank0]: {text}"), format!("{text}\ntraining failed\n")] {
                let profile = opened(&text);
                assert!(profile.warnings.is_empty(), "{:?}\n{text}", profile.warnings);
                let (found, expected) = (ledger(&profile), ledger(&known));
                assert_eq!(found.ledger.requested, expected.ledger.requested, "{text}");
                assert_eq!(found.ledger.unallocated, expected.ledger.unallocated, "{text}");
                assert_eq!(found.processes, expected.processes, "{text}");
                // The advice of a message is not a setting.
                assert_eq!(found.settings, [], "{text}");
            }
        }
    }
    let set =
        format!("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{}", wrapped(FRAGMENTED, 80, true));
    assert!(advice(&oom(&set)).starts_with("Expandable segments are enabled already."));
}

// ---------------------------------------------------------------------------------------------- survived errors

#[test]
fn a_program_that_went_on() {
    let retried = format!("Trying batch size 64\n{V2_2}\nTrying batch size 32\nepoch 1 loss 2.3\n");
    let survived = oom(&retried);
    assert_eq!(survived["ledger"]["has_continued"], true);
    assert!(survived["detail"].as_str().unwrap().contains("The program continued after this error."));
    for text in [
        format!("Trying batch size 64\n{V2_2}\nTrying batch size 64\n"),
        format!("Trying batch size 64\n{V2_2}\ndone 1\n"),
        format!("step 1\n{}step 2\n", super::traceback(V2_2)),
        format!("{V2_2}\nTrying batch size 64\nTrying batch size 32\n"),
    ] {
        let oom = oom(&text);
        assert_eq!(oom["ledger"]["has_continued"], false, "{text}");
        assert!(!oom["detail"].as_str().unwrap().contains("continued"), "{text}");
    }
}
