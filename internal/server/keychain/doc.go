// Package keychain makes, changes, rotates and revokes keys of the store. Each change is in the audit log before it is made.
//
//	k := keychain.Keychain{Config: settings, Keys: s.Keys, Audit: s.Audit, Tenants: tenants}
//	secret, key, first, err := k.Create(ctx, actor, keychain.Request{Tenant: "acme", Label: "laptop", Scope: "inference", Expires: "90d"})
//	…
//	key, err = k.Revoke(ctx, actor, key.ID)
package keychain
