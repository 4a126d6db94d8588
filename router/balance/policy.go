package balance

import (
	"fmt"
	"strings"
)

// Policy is how a replica is chosen.
type Policy uint8

// The policies.
const (
	Prefix         Policy = iota // least expected time to the first token, cached prefixes included
	LeastLoad                    // fewest requests in flight
	PowerOfTwo                   // the less loaded of two drawn at random
	RoundRobin                   // one after the other
	ConsistentHash               // by the prompt's beginning, where that is not loaded above the mean
)

var policyNames = [...]string{"prefix", "least_load", "power_of_two", "round_robin", "consistent_hash"}

// Policies are the names of all policies.
func Policies() []string { return policyNames[:] }

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// ParsePolicy finds a policy by its name.
func ParsePolicy(name string) (Policy, error) {
	for i, known := range policyNames {
		if name == known {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("policy %q is not known; known are %s", name, strings.Join(policyNames[:], ", "))
}
