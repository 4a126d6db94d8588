// Package keychain makes, changes, rotates and revokes keys of the store. Each change is in the audit log before it is made.
package keychain
