// Package bench measures ottla beside the least that the same work can cost on the machine at hand: run
//
//	go test -run '^$' -bench . ./bench
//
// Each benchmark alternates between both sides within one run, since machines differ and shared ones are noisy. ns/op is
// ottla's time, raw-ns/op that of the bare loop, and x-raw how many times the bare loop's time ottla takes.
package bench
