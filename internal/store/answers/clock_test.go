package answers

import (
	"testing"

	"weir/internal/reference"
	"weir/internal/store/storetest"
)

// What servers on a store agree on by time holds where their clocks and the store's differ by 30 s: it goes by the store's clock alone.
func TestClocksMayDiffer(t *testing.T) {
	reference.Slow(t)
	storetest.ClocksDiffer(t, map[string]func(t *testing.T){
		"idempotency keys":              TestIdempotencyKeys,
		"keys are forgotten":            TestKeysAreForgottenAfterTheirTime,
		"executions outlive their keys": TestExecutionsOutliveTheTimeOfTheirKeys,
		"claims end before the lease":   TestKeysAreHeldForLessThanTheLease,
		"leases are renewed":            TestLeasesAreRenewed,
		"one of many begins":            TestOneOfManyBegins,
		"a dead process loses claims":   TestDeadProcessLosesItsClaims,
		"claims in doubt":               TestClaimsInDoubtAreGivenBack,
		"responses":                     TestResponses,
		"responses of the dead":         TestResponsesOfTheDeadAreLost,
	})
}
