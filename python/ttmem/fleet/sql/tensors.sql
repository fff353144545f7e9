-- The largest tensors at the peaks of all ranks. Tensors with the same name, class, shape and type share a row.
SELECT name, class, shape, dtype, MAX(per_bank) AS largest_per_bank, COUNT(*) AS tensors, SUM(per_bank) AS sum_per_bank
FROM tensors
WHERE at_peak AND {in_run}
GROUP BY name, class, shape, dtype
ORDER BY largest_per_bank DESC NULLS LAST, sum_per_bank DESC NULLS LAST, name ASC NULLS LAST, class,
         shape ASC NULLS LAST, dtype ASC NULLS LAST
LIMIT {limit}
