-- Ranks that differ most from the median rank of their run at the peak of their most important pool: in total, in a class
-- of tensors, and in memory that no tensor explains. Ranks with the same kind of pool are compared, such as `cuda` for
-- `cuda:0` and `cuda:1`, if there are at least three.
WITH known AS (
  SELECT rank_id, run, rank, file, rank_index, pool, REGEXP_REPLACE(pool, ':.*', '') AS kind, peak_per_bank
  FROM runs
  WHERE peak_per_bank IS NOT NULL AND {in_run}
), parts AS (
  SELECT rank_id, run, kind, 'peak' AS part, peak_per_bank AS bytes FROM known
  UNION ALL
  SELECT known.rank_id AS rank_id, known.run AS run, known.kind AS kind, classes.class AS part, classes.per_bank AS bytes
  FROM known JOIN classes ON known.rank_id = classes.rank_id AND known.pool = classes.pool
  UNION ALL
  SELECT known.rank_id AS rank_id, known.run AS run, known.kind AS kind, 'unexplained' AS part,
         pools.unexplained_per_bank AS bytes
  FROM known JOIN pools ON known.rank_id = pools.rank_id AND known.pool = pools.pool
  WHERE pools.unexplained_per_bank IS NOT NULL
), explained AS (
  SELECT DISTINCT rank_id FROM parts WHERE part <> 'peak'
), grid AS (
  -- A rank with known classes has no tensors of the other classes.
  SELECT known.rank_id AS rank_id, known.run AS run, known.kind AS kind, names.part AS part
  FROM (SELECT DISTINCT run, kind, part FROM parts) AS names
  JOIN known ON known.run = names.run AND known.kind = names.kind
  WHERE names.part = 'peak' OR known.rank_id IN (SELECT rank_id FROM explained)
), filled AS (
  SELECT grid.rank_id AS rank_id, grid.run AS run, grid.kind AS kind, grid.part AS part, COALESCE(parts.bytes, 0) AS bytes
  FROM grid LEFT JOIN parts ON grid.rank_id = parts.rank_id AND grid.part = parts.part
), ranked AS (
  SELECT rank_id, run, kind, part, bytes,
         ROW_NUMBER() OVER (PARTITION BY run, kind, part ORDER BY bytes, rank_id) AS position,
         COUNT(*) OVER (PARTITION BY run, kind, part) AS ranks
  FROM filled
), medians AS (
  SELECT run, kind, part, bytes AS median_bytes
  FROM ranked
  WHERE 2 * position IN (ranks, ranks + 1) AND ranks >= 3
)
SELECT known.run AS run, known.rank AS rank, known.file AS file, known.pool AS pool, ranked.part AS part,
       ranked.bytes AS per_bank, medians.median_bytes AS median_per_bank,
       ranked.bytes - medians.median_bytes AS difference_per_bank, ranked.rank_id AS rank_id
FROM ranked
JOIN medians ON ranked.run = medians.run AND ranked.kind = medians.kind AND ranked.part = medians.part
JOIN known ON ranked.rank_id = known.rank_id
WHERE ranked.bytes <> medians.median_bytes
ORDER BY ABS(ranked.bytes - medians.median_bytes) DESC, known.run, known.file, known.rank_index, known.rank_id, ranked.part
LIMIT {limit}
