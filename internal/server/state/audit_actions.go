package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"weir/telemetry/audit"
)

// Actions of the audit log.
const (
	ActionKeyCreate     = "key.create"
	ActionKeyChange     = "key.change"
	ActionKeyRotate     = "key.rotate"
	ActionKeyRevoke     = "key.revoke"
	ActionDenied        = "signin.denied"
	ActionConfigReload  = "config.reload"
	ActionCacheReset    = "prefix_cache.reset"
	ActionTenantCreate  = "tenant.create"
	ActionTenantChange  = "tenant.change"
	ActionTenantDelete  = "tenant.delete"
	ActionTenantForget  = "tenant.forget"
	ActionTenantRead    = "tenant.read_prompts"
	ActionModelLoad     = "model.load"
	ActionModelUnload   = "model.unload"
	ActionModelStop     = "model.stop"
	ActionModelAlias    = "model.alias"
	ActionModelRollback = "model.rollback"
	ActionDeploy        = "deployment.apply"
	ActionUndeploy      = "deployment.delete"
	ActionRollout       = "rollout." // and what it came to
	ActionBrownoutLower = "brownout.lower"
	ActionBrownoutRaise = "brownout.raise"
	ActionModeration    = "moderation"
	ActionRotateKeys    = "store.rotate_keys"
	ActionStoreBackup   = "store.backup"
	ActionStoreRestore  = "store.restore"
	ActionStart         = "process.start"
	ActionStop          = "process.stop"
)

// Details are what an entry says more; never a secret.
type Details map[string]any

// AddEntry adds a change to an audit log, before the change: one that cannot be noted is
// not made. A change that fails afterwards has its entry all the same, and one more that says so: see auditFailure.
func AddEntry(ctx context.Context, log audit.Log, by, action, object string, more Details) (audit.Entry, error) {
	change, err := ChangeOf(by, action, object, more)
	if err != nil {
		return audit.Entry{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	entry, err := log.Append(ctx, change)
	if err != nil {
		return entry, fmt.Errorf("the change cannot be written into the audit log, so it is not made: %w", err)
	}
	return entry, nil
}

// ChangeOf is what an entry holds, as of now.
func ChangeOf(by, action, object string, more Details) (audit.Change, error) {
	text, err := json.Marshal(more)
	return audit.Change{Time: time.Now(), Actor: by, Action: action, Object: object, Details: string(text)}, err
}
