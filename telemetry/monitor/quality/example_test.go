package quality_test

import (
	"fmt"

	"weir/telemetry/monitor/quality"
)

// Scores are measured against labels that came later, as a whole and for each city.
func Example() {
	r, err := quality.Make(quality.Data{
		Scores: [][]float64{{0.9, 0.8, 0.3, 0.2, 0.6, 0.7}},
		Labels: []float64{1, 1, 0, 0, 0, 1},
		Slices: []quality.Column{{Name: "city", Texts: []string{"Oslo", "Oslo", "Oslo", "Bonn", "Bonn", "Bonn"}}},
	}, quality.Auto)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Task)
	for _, s := range append([]quality.Slice{r.All}, r.Slices...) {
		fmt.Printf("%q: %d rows, AUC %v, accuracy %.2f\n", s.Name, s.Binary.Rows, s.Binary.AUC, s.Binary.Accuracy)
	}
	// Output:
	// binary
	// "all": 6 rows, AUC 1.0000, accuracy 0.83
	// "city = Bonn": 3 rows, AUC 1.0000, accuracy 0.67
	// "city = Oslo": 3 rows, AUC 1.0000, accuracy 1.00
}
