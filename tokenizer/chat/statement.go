package chat

func (s *textStmt) exec(x *exec) (signal, error) {
	x.out.write(s.text, false)
	return signalNext, x.out.err
}

func (s *printStmt) exec(x *exec) (signal, error) {
	v, err := x.eval(s.value)
	if err != nil {
		return signalNext, at(s.line, err)
	}
	x.out.str(v)
	return signalNext, at(s.line, x.out.err)
}

func (s *ifStmt) exec(x *exec) (signal, error) {
	for _, b := range s.branches {
		v, err := x.eval(b.test)
		if err != nil {
			return signalNext, at(s.line, err)
		}
		if v.truth() {
			return x.run(b.body)
		}
	}
	return x.run(s.otherwise)
}

func (s *setStmt) exec(x *exec) (signal, error) {
	if err := x.checkNamespaces(s.target); err != nil {
		return signalNext, at(s.line, err)
	}
	v, err := x.eval(s.value)
	if err == nil {
		err = x.assign(s.target, v)
	}
	return signalNext, at(s.line, err)
}

func (s *setBlockStmt) exec(x *exec) (signal, error) {
	text, sig, err := x.capture(s.body)
	if err == nil && sig == signalNext {
		if text, err = x.filterCaptured(s.filter, text); err == nil {
			err = x.assign(s.target, text)
		}
	}
	return sig, at(s.line, err)
}

func (s *filterStmt) exec(x *exec) (signal, error) {
	text, sig, err := x.capture(s.body)
	if err == nil && sig == signalNext {
		if text, err = x.filterCaptured(s.filter, text); err == nil {
			x.out.str(text)
			err = x.out.err
		}
	}
	return sig, at(s.line, err)
}

func (s *withStmt) exec(x *exec) (signal, error) {
	inner := &scope{parent: x.scope}
	for i, t := range s.targets {
		v, err := x.eval(s.values[i])
		if err != nil {
			return signalNext, at(s.line, err)
		}
		outer := x.scope
		x.scope = inner
		err = x.assign(t, v)
		x.scope = outer
		if err != nil {
			return signalNext, at(s.line, err)
		}
	}
	outer := x.scope
	x.scope = inner
	sig, err := x.run(s.body)
	x.scope = outer
	return sig, err
}

// exec runs a scope; a generation block, which marks what training learns, is no more than that here.
func (s *scopeStmt) exec(x *exec) (signal, error) { return x.inner(s.body) }

func (breakStmt) exec(*exec) (signal, error) { return signalBreak, nil }

func (continueStmt) exec(*exec) (signal, error) { return signalContinue, nil }

func (s *macroStmt) exec(x *exec) (signal, error) {
	x.scope.set(s.name, Value{kind: kindMacro, ref: x.closure(s.macro)})
	return signalNext, nil
}

func (s *callStmt) exec(x *exec) (signal, error) {
	callee, a, err := s.call.prepare(x)
	if err == nil {
		a.names = append(a.names, "caller")
		a.named = append(a.named, Value{kind: kindMacro, ref: x.closure(s.caller)})
		var v Value
		if v, err = x.call(callee, a); err == nil {
			x.out.str(v)
			err = x.out.err
		}
	}
	return signalNext, at(s.line, err)
}
