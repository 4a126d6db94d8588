package drift_test

import (
	"fmt"
	"time"

	"weir/telemetry/monitor/drift"
)

// The model was made with ages from 20 to 69. Requests bring those from 50 on only, and after one window the feature drifts.
func Example() {
	var ages []float64
	for i := range 1000 {
		ages = append(ages, float64(20+i%50))
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := drift.NewMonitor(
		&drift.Profile{Format: 1, Model: "credit", Rows: 1000, Features: []drift.Column{drift.Numbers("age", ages, 5)}},
		drift.Rules{Window: time.Minute, MinRows: 100, Windows: 1}, now)
	age := m.Feature("age")
	for i := range 200 {
		m.Number(age, float64(50+i%20))
		m.Rows(1)
	}
	fmt.Println(m.Tick(now.Add(time.Minute)))
	for _, c := range m.Report().Columns {
		fmt.Printf("%s is %s; PSI %.1f, KS %.1f\n", c.Name, c.State, c.Distance.PSI, c.Distance.KS)
	}
	// Output:
	// true
	// age is drifting; PSI 2.6, KS 0.6
}
