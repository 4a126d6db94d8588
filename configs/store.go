package configs

import (
	"strings"
	"time"

	"weir/api/tenant"
)

// Store says where keys and other durable state are.
type Store struct {
	URL       string // sqlite:PATH or postgres://…; empty: a file in the state directory
	KeyPepper string // in the keyed hash of every key; empty: from a file beside the SQLite file
	AuditHead string // file apart from the store; empty: beside the SQLite file, or in the state directory
	// PromptRetention is how long prompts and answers of tenants with log_prompts are kept.
	PromptRetention time.Duration
}

// storeSettings are those of the store.
func storeSettings(c *Config) []Setting {
	return []Setting{
		{Key: "store.url", Flag: "store", Secret: true,
			Usage: "where API keys are kept: sqlite:PATH or postgres://USER@HOST/DATABASE; empty is weir.db in " +
				"$XDG_STATE_HOME/weir, which serve opens once weir keys has made it",
			binding: bindText(&c.Store.URL, "sqlite:PATH, postgres://…, or nothing", isStoreURL)},
		{Key: "store.key_pepper", Flag: "key-pepper", Secret: true,
			Usage: "secret without which the store verifies no API key, the same for all weirs that share the store; empty " +
				"is a file beside the SQLite file, made at need",
			binding: bindText(&c.Store.KeyPepper, "a secret of at least 32 bytes, best from the environment or the file, or nothing", isPepper)},
		{Key: "store.audit_head", Flag: "audit-head",
			Usage: "file, apart from the database, that notes the head of the audit log, so that an end that was cut off shows; " +
				"empty is beside the SQLite file, or in $XDG_STATE_HOME/weir for PostgreSQL",
			binding: bindText(&c.Store.AuditHead, "a path, or nothing", anyText)},
		{Key: "store.prompt_retention", Flag: "prompt-retention",
			Usage:   "how long the store keeps prompts and answers of tenants with log_prompts; of others it keeps none",
			binding: bindDuration(&c.Store.PromptRetention, time.Hour, 10*365*24*time.Hour)},
	}
}

func isStoreURL(s string) bool {
	return s == "" || strings.HasPrefix(s, "sqlite:") || strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

func isPepper(s string) bool { return s == "" || len(s) >= tenant.MinPepperBytes }
