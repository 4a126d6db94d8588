-- How many changes there were of keys that servers may know, so that they see one soon: one row with id 1, or none yet.
CREATE TABLE weir_key_changes (
	id     bigint PRIMARY KEY,
	number bigint NOT NULL
);
