package regex

// MaxDivisor is the largest divisor of Multiple.
const MaxDivisor = 1<<30 - 1

// Multiple matches every byte string whose digits, read as one number, are a multiple of divisor, which is from 1 to MaxDivisor; bytes that are
// no digits count as not there. With And it says of numbers what they are multiples of. A derivative is a remainder, so that the states are as
// many as the divisor at most.
func Multiple(divisor int) *Regex {
	if divisor <= 1 {
		return Not(nothing)
	}
	return &Regex{op: opMultiple, least: int32(min(divisor, MaxDivisor))}
}

// multiple is the node of digits whose number is still remainder above a multiple of divisor.
func (a *Automaton) multiple(divisor, remainder uint32) Node {
	return a.intern(node{op: opMultiple, a: divisor, b: remainder}, facts{nullable: remainder == 0, plain: true})
}

func (a *Automaton) deriveMultiple(id Node, n node, b byte) Node {
	if b < '0' || b > '9' {
		return id
	}
	return a.multiple(n.a, uint32((uint64(n.b)*10+uint64(b-'0'))%uint64(n.a)))
}
