-- The id of the data key that encrypts a row's texts, '' where they are in clear. Texts in TEXT columns are base64 then.
ALTER TABLE weir_replay ADD COLUMN data_key TEXT NOT NULL DEFAULT '';
ALTER TABLE weir_responses ADD COLUMN data_key TEXT NOT NULL DEFAULT '';
ALTER TABLE weir_transcripts ADD COLUMN data_key TEXT NOT NULL DEFAULT '';
ALTER TABLE weir_files ADD COLUMN data_key TEXT NOT NULL DEFAULT '';
ALTER TABLE weir_batches ADD COLUMN data_key TEXT NOT NULL DEFAULT '';

-- The store of data keys that has the rows' keys.
CREATE TABLE weir_key_store (
	id TEXT PRIMARY KEY
) STRICT;
