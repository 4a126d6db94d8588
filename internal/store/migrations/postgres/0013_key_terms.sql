-- What a key may beside what its tenant may, as JSON ('' is nothing of its own), and the id of the first of the keys that
-- took each other's place ('' is the key's own), as which its use is counted.
ALTER TABLE weir_keys ADD COLUMN terms text NOT NULL DEFAULT '';
ALTER TABLE weir_keys ADD COLUMN account text NOT NULL DEFAULT '';
