-- The process that has claimed a batch, as JSON: what it claimed is free again as soon as it is gone.
ALTER TABLE waiting ADD COLUMN claimed_by TEXT;
