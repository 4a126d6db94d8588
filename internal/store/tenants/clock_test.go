package tenants

import (
	"testing"

	"weir/internal/reference"
	"weir/internal/store/storetest"
)

// What servers on a store agree on by time holds where their clocks and the store's differ by 30 s: it goes by the store's clock alone.
func TestClocksMayDiffer(t *testing.T) {
	reference.Slow(t)
	storetest.ClocksDiffer(t, map[string]func(t *testing.T){
		"rotated keys": TestRotation,
	})
}
