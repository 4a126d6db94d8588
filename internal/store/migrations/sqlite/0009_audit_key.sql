-- Entries of the audit log that are keyed with a secret apart from the database. A weir without the key adds none behind them.
ALTER TABLE weir_audit ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER weir_audit_stay_keyed BEFORE INSERT ON weir_audit
WHEN NEW.keyed = 0 AND EXISTS (SELECT 1 FROM weir_audit WHERE keyed = 1)
BEGIN
	SELECT RAISE(ABORT, 'the audit log is keyed, and an entry without the key is refused');
END;
