package cpu

// feature is an instruction set under the name that Linux gives it.
type feature struct {
	name string
	have bool
}

// Features lists the instruction sets that matter to kernels and that this
// machine has, under Linux's names.
func Features() []string {
	var names []string
	for _, f := range features() {
		if f.have {
			names = append(names, f.name)
		}
	}
	return names
}
