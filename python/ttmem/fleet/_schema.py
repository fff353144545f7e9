"""The tables of a dataset. docs/fleet.md describes them; `ttmem-export` writes them."""

from __future__ import annotations

SCHEMA = 1
"""The version of the tables. New columns and tables do not change it."""
TEXT, NUMBER, FLAG = "text", "number", "flag"

_COLUMNS = {
    "runs": """
        schema_version:number run:text rank_id:number export_id:text source_id:text source:text
        source_host:text exported_ns:number error:text error_code:number file:text format:text rank:text
        rank_index:number process:number processes:number device:text host:text pid:number
        rank_number:number local_rank:number world_size:number program:text python:text torch:text
        runtime:text driver:text began_ns:number program_runs:number passes:number operations:number
        skipped_lines:number warnings:number pool:text extent:text level:text peak_bytes:number
        capacity_bytes:number peak_per_bank:number capacity_per_bank:number peak_total:number
        capacity_total:number padded_bytes:number logical_bytes:number oom_cause:text oom_pool:text
        oom_step:number oom_op:text oom_loc:text oom_requested_total:number oom_requested_per_bank:number
        oom_free_per_bank:number oom_lacks_per_bank:number verdict:text verdict_detail:text
        verdict_advice:text ended_by:text growth:text growth_per_iteration_per_bank:number
        growth_iterations_left:number
    """,
    "labels": """
        rank_id:number run:text key:text value:text
    """,
    "pools": """
        rank_id:number run:text rank:text pool:text is_main:flag banks:number extent:text level:text
        capacity_per_bank:number peak_per_bank:number peak_total:number peak_step:number peak_source:text
        caused_by_step:number caused_by_op:text caused_by_loc:text final_per_bank:number final_total:number
        free_at_peak_per_bank:number largest_free_at_peak_per_bank:number quantum_per_bank:number
        polled:flag explained_per_bank:number unexplained_per_bank:number live_count:number
        padded_bytes:number logical_bytes:number requested_at_peak_total:number active_at_peak_total:number
        reserved_at_peak_total:number reserved_peak_total:number fragmentation:text
    """,
    "classes": """
        rank_id:number run:text rank:text pool:text class:text per_bank:number
    """,
    "curves": """
        rank_id:number run:text rank:text pool:text position:number step:number time_ns:number per_bank:number
    """,
    "tensors": """
        rank_id:number run:text rank:text tensor:number pool:text class:text per_bank:number at_peak:flag
        name:text ssa:text shape:text dtype:text op:text loc:text made_in:text program:text
        program_run:number padded_bytes:number logical_bytes:number born_step:number dies_step:number
        gone_before_step:number born_ns:number dies_ns:number stack:number
    """,
    "stacks": """
        rank_id:number run:text rank:text stack:number line:text lines:text
    """,
    "operations": """
        rank_id:number run:text rank:text op:text count:number
    """,
    "phases": """
        rank_id:number run:text rank:text session:number session_name:text estimated:flag fits:flag
        name:text first_step:number end_step:number segment_peak_bytes:number allocations_bytes:number
        deallocations_bytes:number change_bytes:number cumulative_peak_bytes:number
        cumulative_current_bytes:number l1_peak_cb_bytes:number l1_peak_buffer_bytes:number
        l1_peak_total_bytes:number
    """,
    "faults": """
        rank_id:number run:text rank:text kind:text ended_program:flag pool:text step:number op:text
        loc:text requested_total:number requested_per_bank:number banks:number free_per_bank:number
        largest_free_per_bank:number line:number message:text
    """,
    "findings": """
        rank_id:number run:text rank:text position:number rule:text urgency:text pool:text headline:text
        detail:text advice:text saves_per_bank:number saves_bytes:number step:number tensor_count:number
    """,
    "warnings": """
        rank_id:number run:text rank:text line:number message:text
    """,
}

TABLES: dict[str, dict[str, str]] = {
    table: dict(column.split(":") for column in columns.split()) for table, columns in _COLUMNS.items()
}
"""The columns of each table, with their kind. `runs` is first."""
