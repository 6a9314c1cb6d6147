// The idiom of S4's CSP library over weft's channels and select; docs/csp.md is the porting guide.
//
//   using namespace weft::csp;
//   channel<int> ch;                                  // +ch is its writer, -ch its reader
//   spawn([w = ++ch] { for (int i = 0; w << i; ++i) {} });
//   int x;
//   switch (alt(-ch >> x, after(1s) >> poke)) {
//     case 1: …                                       // x came
//     case -1: …                                      // the writer is dead
//     case 2: …                                       // a second passed
//   }
//
// A thin layer, and opt-in: weft.hpp does not include it. A writer is a Sender, a reader is a
// Receiver, an alt is a select; both styles mix in one program, on the same channels. Everything
// here waits as weft does: in a cancelled scope it throws Cancelled, and nothing has moved. Names
// are written as that library writes them.
//
// | ends                | is                                                                      |
// |---------------------|-------------------------------------------------------------------------|
// | channel<T> ch       | a rendezvous, and both its ends; channel<> carries pokes                |
// | +ch, -ch            | its writer, its reader: to be used, or copied                           |
// | ++ch, --ch          | the same, moved out of it                                               |
// | --w, ++r            | a new channel for a null writer or reader; returns the other end        |
// | w << v, r >> x      | a send, a receive: a statement, a bool, or an alternative               |
// | ~w, ~r              | the death of the other end, likewise                                    |
// | alt, prialt         | one of several, by chance or by order: 3 the third, -3 its death, 0 none|
// | action, action{}    | an operation that is kept; none                                         |
#pragma once

#include <weft/csp/chanop.hpp>
#include <weft/csp/ends.hpp>
#include <weft/csp/rpc.hpp>
#include <weft/csp/spawn.hpp>
#include <weft/csp/stages.hpp>
