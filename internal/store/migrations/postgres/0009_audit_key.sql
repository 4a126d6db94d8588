-- Entries of the audit log that are keyed with a secret apart from the database. A weir without the key adds none behind them.
ALTER TABLE weir_audit ADD COLUMN keyed smallint NOT NULL DEFAULT 0;

CREATE FUNCTION weir_audit_refuse_unkeyed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM weir_audit WHERE keyed = 1) THEN
		RAISE EXCEPTION 'the audit log is keyed, and an entry without the key is refused';
	END IF;
	RETURN NEW;
END
$$;

CREATE TRIGGER weir_audit_stay_keyed BEFORE INSERT ON weir_audit
	FOR EACH ROW WHEN (NEW.keyed = 0) EXECUTE FUNCTION weir_audit_refuse_unkeyed();
