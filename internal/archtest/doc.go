// Package archtest holds weir's architecture as tests: which folder may
// import which, where a third party may be used, and what the deterministic
// core may not do. It has no other content; the table is in table_test.go.
//
//	go test ./internal/archtest                              // before a commit
//	go test ./internal/archtest -run TestImportsFollowTheTable // after a new import
package archtest
