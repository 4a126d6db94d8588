package store

import (
	"fmt"
	"testing"
	"time"
)

// clocksDiffer has the databases' clock be ahead of this process's, until the test ends.
func clocksDiffer(t *testing.T, ahead time.Duration) {
	t.Helper()
	for _, d := range []*dialect{sqliteDialect, postgresDialect} {
		now := d.now
		d.now = fmt.Sprintf("(%s + (%d))", now, ahead.Microseconds())
		t.Cleanup(func() { d.now = now })
	}
}

// What servers on a store agree on by time holds where their clocks and the store's differ by 30 s: leases, idempotency keys, parts of
// deployments, batches, responses and outcomes go by the store's clock alone.
func TestClocksMayDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			clocksDiffer(t, ahead)
			for name, test := range map[string]func(t *testing.T){
				"idempotency keys":              TestIdempotencyKeys,
				"keys are forgotten":            TestKeysAreForgottenAfterTheirTime,
				"executions outlive their keys": TestExecutionsOutliveTheTimeOfTheirKeys,
				"claims end before the lease":   TestKeysAreHeldForLessThanTheLease,
				"leases are renewed":            TestLeasesAreRenewed,
				"one of many begins":            TestOneOfManyBegins,
				"a dead process's claims":       TestDeadProcessLosesItsClaims,
				"claims in doubt":               TestClaimsInDoubtAreGivenBack,
				"observations":                  TestObservationsEndWithTheLease,
				"parts":                         TestPartsAreTakenByLeases,
				"batches":                       TestBatchIsLeasedByOne,
				"files":                         TestExpiredFilesGoUnlessInUse,
				"responses":                     TestResponses,
				"responses of the dead":         TestResponsesOfTheDeadAreLost,
				"rotated keys":                  TestRotation,
				"outcomes":                      TestOutcomesAreKept,
			} {
				t.Run(name, test)
			}
		})
	}
}
