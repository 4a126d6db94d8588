package slo_test

import (
	"fmt"
	"strings"
	"time"

	"weir/telemetry/slo"
)

// Objectives become Prometheus's rules, and say of one request whether it was slower than promised.
func Example() {
	o := slo.Default()
	o.Availability = 0.9995
	if err := o.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	var rules strings.Builder
	if err := o.Write(&rules, `job="weir"`); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Contains(rules.String(), "- alert: "), strings.Contains(rules.String(), `job="weir"`))
	fmt.Println(slo.Percent(o.Availability), "available; first token within", o.FirstToken.Target)
	fmt.Println(o.Missed(o.FirstToken.Target+time.Second, 0))
	// Output:
	// true true
	// 99.95% available; first token within 2.5s
	// true
}
