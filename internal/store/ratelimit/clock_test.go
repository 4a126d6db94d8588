package ratelimit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

// clockDiffers has Redis's clock be ahead of this process's, until the test ends.
func clockDiffers(t *testing.T, ahead time.Duration) {
	t.Helper()
	const clock = `tonumber(clock[1]) * 1000`
	script := quotaScript
	if !strings.Contains(script, clock) {
		t.Fatal("the script reads Redis's clock otherwise")
	}
	quotaScript = strings.ReplaceAll(script, clock, fmt.Sprintf("%s + (%d)", clock, ahead.Milliseconds()))
	t.Cleanup(func() { quotaScript = script })
}

// What servers agree on by time holds where their clocks and Redis's differ by 30 s: limits go by Redis's clock alone.
func TestClocksMayDiffer(t *testing.T) {
	reference.Slow(t)
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			clockDiffers(t, ahead)
			for name, test := range map[string]func(t *testing.T){
				"a bucket of two weirs":     TestTwoWeirsShareOneBucket,
				"strict budgets":            TestStrictBudgetsOverTwoWeirs,
				"grants of the dead":        TestLeasesOfDeadWeirsEnd,
				"what a dead weir has used": TestWhatADeadWeirHasUsed,
				"grants are renewed":        TestGrantsAreRenewed,
				"an empty Redis":            TestAnEmptyRedisIsToldWhatWasSpent,
			} {
				t.Run(name, test)
			}
		})
	}
}
