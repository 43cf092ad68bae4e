package conformance

// Tester and RunOn let the suite's own tests put a recorder in the place of *testing.T.
type Tester = tester

var RunOn = run

var DeepCopy = deepCopy
