package predictions_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"weir/telemetry/monitor/predictions"
)

// What a model predicted is read back as a table, for the day when labels come.
func Example() {
	folder, err := os.MkdirTemp("", "predictions")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	log, err := predictions.Open(predictions.Config{
		Folder: folder, Model: "credit", Version: "3", Outputs: []string{"risk"},
		Features: []predictions.Feature{{Name: "age"}, {Name: "city", Text: true}, {Name: "income", Privacy: predictions.Summary}},
		Failed:   func(err error) { fmt.Println(err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	log.Add(predictions.Batch{
		ID: "req-1", Tenant: "acme", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Rows: 2,
		Numbers: []float64{31, 52_345, 64, 38_700}, Texts: []string{"Oslo", "Bonn"}, Outputs: []float64{0.1, 0.4},
	})
	if err := log.Close(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	t, err := predictions.ReadTable(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"id", "row", "feature.age", "feature.city", "feature.income", "output.risk"} {
		fmt.Println(name, t.Text(name))
	}
	// Output:
	// id [req-1 req-1]
	// row [0 1]
	// feature.age [31 64]
	// feature.city [Oslo Bonn]
	// feature.income [52000 39000]
	// output.risk [0.1 0.4]
}
