package audit_test

import (
	"fmt"
	"iter"
	"time"

	"weir/telemetry/audit"
)

// Each entry holds the hash of the one before it, so an entry that is altered breaks the chain.
func Example() {
	key := audit.NewKey([]byte("32 random bytes, apart from logs"))
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var log []audit.Entry
	var last audit.Head
	for _, action := range []string{"key.create", "key.revoke", "config.reload"} {
		e := key.Next(last, audit.Change{Time: at, Actor: "command line", Action: action, Object: "acme"})
		log, last = append(log, e), e.Head()
	}
	entries := func() iter.Seq2[audit.Entry, error] {
		return func(yield func(audit.Entry, error) bool) {
			for _, e := range log {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	head, err := key.Verify(audit.Head{}, entries(), last)
	fmt.Println(head == last, err)
	log[1].Object = "other"
	_, err = key.Verify(audit.Head{}, entries())
	fmt.Println(err)
	log = log[:1]
	_, err = key.Verify(audit.Head{}, entries(), last)
	fmt.Println(err)
	// Output:
	// true <nil>
	// the audit log is broken: entry 2 was altered, or is keyed with another secret
	// the audit log is broken: it ends with entry 1, but entry 3 was noted
}
