package constraint_test

import (
	"fmt"

	"weir/api/openai/constraint"
	"weir/api/openai/format"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/tenant"
	"weir/tokenizer/grammar"
)

// A format becomes a constraint of the engine: of each token it says whether it may come next.
func Example() {
	o, fault := jsonbody.Parse([]byte(`{"structured_outputs": {"choice": ["yes", "no"]}}`), true)
	if fault != nil {
		panic(fault)
	}
	f := format.Read(o, format.SchemaRules{}, &fault)
	vocabulary := grammar.NewVocabulary([][]byte{[]byte("yes"), []byte("maybe"), []byte("n"), []byte("o")}, nil)
	acme := tenant.New("acme")
	j := &job.Job{
		Model:  &models.Model{ID: "llama", Vocabulary: &models.Vocabulary{Build: func() *grammar.Vocabulary { return vocabulary }}},
		Params: &params.Params{Format: f, Notes: o.Notes}, Tenant: &acme, MaxTokens: 10,
	}
	c := constraint.NewCompiler(1<<20, nil, func() bool { return false })
	if _, fault := c.Constrain(j, func() <-chan struct{} { return nil }); fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(j.Constraint.Allows(0), j.Constraint.Allows(1), j.Constraint.Allows(2), j.Constraint.Allows(3))
	fmt.Println(j.Constraint.Accept(2), j.Constraint.Allows(3))
	// Output:
	// true false true false
	// <nil> true
}
