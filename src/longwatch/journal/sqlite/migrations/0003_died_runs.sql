-- Runs whose ending was written for a process that was gone said `failed` and are found as `died` from now on.
UPDATE runs SET status = 'died'
WHERE status = 'failed'
  AND json_array_length(summary) = 9
  AND json_extract(summary, '$[7][1][3]') LIKE 'dead-%';
