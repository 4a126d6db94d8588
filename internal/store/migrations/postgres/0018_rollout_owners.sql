-- The process that has a rollout under way ('' is none): no other one goes on with it, or writes its record, while that one lives.
ALTER TABLE weir_rollouts ADD COLUMN owner text NOT NULL DEFAULT '';
