package configs

import (
	"strings"
	"time"

	"weir/api/tenant"
	"weir/internal/envelope"
)

// Store says where keys and other durable state are.
type Store struct {
	URL       string // sqlite:PATH or postgres://…, or StoreOff; empty: a file in the state directory
	KeyPepper string // in the keyed hash of every key; empty: from a file beside the SQLite file
	// MasterKeys encrypt the data keys of tenants: a secret, MasterFile or MasterCommand and what follows it, or
	// MasterPepper. The first encrypts, all decrypt; empty is the pepper's.
	MasterKeys []string
	DataKeys   string // URL of the database of data keys; empty: a file beside the SQLite file, or the PostgreSQL database itself
	Verify     bool   // the whole store is checked at the start
	AuditHead  string // file apart from the store; empty: beside the SQLite file, or in the state directory
	// PromptRetention is how long prompts and answers of tenants with log_prompts are kept.
	PromptRetention time.Duration
}

// storeSettings are those of the store.
func storeSettings(c *Config) []Setting {
	return []Setting{
		{Key: "store.url", Flag: "store", Secret: true,
			Usage: "where keys, files, batches, responses, usage and the audit log are kept: sqlite:PATH or postgres://USER@HOST/DATABASE; " +
				"off keeps nothing; empty is weir.db in $XDG_STATE_HOME/weir (~/.local/state/weir), which serve and keys make",
			binding: bindText(&c.Store.URL, "sqlite:PATH, postgres://…, off, or nothing", func(s string) bool { return s == StoreOff || isStoreURL(s) })},
		{Key: "store.key_pepper", Flag: "key-pepper", Secret: true,
			Usage: "secret without which the store verifies no API key, the same for all weirs that share the store; empty " +
				"is a file beside the SQLite file, made at need",
			binding: bindText(&c.Store.KeyPepper, "a secret of at least 32 bytes, best from the environment or the file, or nothing", isPepper)},
		{Key: "store.master_key", Flag: "master-key", Secret: true,
			Usage: "what encrypts the tenants' data keys, which encrypt prompts and answers in the store: a secret, file:PATH of one, " +
				"command:PROGRAM ARGS that wraps and unwraps (a client of a KMS), or pepper; the first encrypts, all decrypt; " +
				"empty is derived from the pepper",
			binding: bindNames(&c.Store.MasterKeys, "a secret of at least 32 bytes, file:PATH, command:PROGRAM or pepper", isMasterKey)},
		{Key: "store.data_keys", Flag: "data-keys", Secret: true,
			Usage: "where the tenants' data keys are kept, apart from the store, so that copies of it are unreadable once a tenant is " +
				"forgotten: sqlite:PATH or postgres://…; empty is a file beside the SQLite file, or the PostgreSQL database itself",
			binding: bindText(&c.Store.DataKeys, "sqlite:PATH, postgres://…, or nothing", isStoreURL)},
		{Key: "store.verify", Flag: "store-verify",
			Usage:   "check the whole store for damage before serving, as weir store verify does; it takes as long as reading it",
			binding: bindBool(&c.Store.Verify)},
		{Key: "store.audit_head", Flag: "audit-head",
			Usage: "file, apart from the database, that notes the head of the audit log, so that an end that was cut off shows; " +
				"empty is beside the SQLite file, or in $XDG_STATE_HOME/weir for PostgreSQL",
			binding: bindText(&c.Store.AuditHead, "a path, or nothing", anyText)},
		{Key: "store.prompt_retention", Flag: "prompt-retention",
			Usage:   "how long the store keeps prompts and answers of tenants with log_prompts; of others it keeps none",
			binding: bindDuration(&c.Store.PromptRetention, time.Hour, 10*365*24*time.Hour)},
	}
}

// StoreOff is the URL of no store, at the default place neither.
const StoreOff = "off"

func isStoreURL(s string) bool {
	return s == "" || strings.HasPrefix(s, "sqlite:") || strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// Entries of MasterKeys that are no secrets.
const (
	MasterPepper  = "pepper"   // derived from the pepper of the keys
	MasterFile    = "file:"    // before the path of a file with a secret
	MasterCommand = "command:" // before a program and its arguments
)

func isMasterKey(s string) bool {
	return s == MasterPepper || strings.HasPrefix(s, MasterFile) || strings.HasPrefix(s, MasterCommand) || len(s) >= envelope.MinSecretBytes
}

func isPepper(s string) bool { return s == "" || len(s) >= tenant.MinPepperBytes }
