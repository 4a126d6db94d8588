// Package tenant says who calls and what they may: tenants, the keys, tokens and
// certificates that stand for them, and scopes. Identity comes from what a caller
// can prove, never from a header that a client can write.
package tenant
