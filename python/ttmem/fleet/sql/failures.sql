-- Ranks that ran out of memory, with the verdict. Of a run, the rank that failed at the first step comes first.
SELECT run, rank, file, oom_cause AS cause, oom_pool AS pool, oom_step AS step, oom_op AS op,
       oom_requested_per_bank AS requested_per_bank, oom_lacks_per_bank AS lacks_per_bank, verdict, verdict_detail AS detail,
       rank_id
FROM runs
WHERE oom_cause IS NOT NULL AND {in_run}
ORDER BY run, oom_step ASC NULLS LAST, file, rank_index, rank_id
LIMIT {limit}
