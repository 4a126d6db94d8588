// Package invariants says at compile time whether broken contracts should
// stop the program where they happen. Enabled is a constant, so the checks
// behind it cost nothing in a release build.
//
//	if err := p.Check(); invariants.Enabled && err != nil {
//		panic(err) // in tests; a release counts the error and goes on
//	}
package invariants
