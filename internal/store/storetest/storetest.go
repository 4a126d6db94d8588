// Package storetest is what tests of stores share.
package storetest

import (
	"testing"
	"time"
)

// WaitUntil fails the test where something has not come to pass within 20 seconds.
func WaitUntil(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to that")
		}
	}
}
