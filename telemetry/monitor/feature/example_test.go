package feature_test

import (
	"context"
	"fmt"

	"weir/internal/tensor"
	"weir/router"
	"weir/telemetry/monitor/feature"
)

// A manifest says where each input comes from. The request brings one feature of three.
func Example() {
	m, err := feature.ParseManifest([]byte(`
version: 1
features:
- {name: income, source: request, type: number, required: true, min: 0}
- {name: age, source: request, type: integer, default: 30}
- {name: currency, source: constant, type: string, value: EUR}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	join, err := feature.NewJoin(m, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	incomes := tensor.Of("income", tensor.Float64, []int64{2}, []float64{52_000, 31_000})
	var rows feature.Rows
	if err := join.Resolve(context.Background(), &router.Prediction{Inputs: []tensor.Tensor{incomes}}, &rows); err != nil {
		fmt.Println(err)
		return
	}
	for row := range rows.Len() {
		for i, f := range m.Features {
			fmt.Printf("%s %v (%v); ", f.Name, rows.Value(row, i), rows.Outcome(row, i))
		}
		fmt.Println("defaulted:", rows.Defaulted(row))
	}
	// Output:
	// income 52000 (request); age 30 (absent); currency EUR (constant); defaulted: age
	// income 31000 (request); age 30 (absent); currency EUR (constant); defaulted: age
}
