//! Calls of constants are made once, when a list is compiled; launches give the same bits.

use instructions::passes::Pass;
use millstream::*;
use millstream_testing::machine::*;
use proptest::prelude::*;

const FOLD: &[Pass] = &[Pass::Fold, Pass::Dead, Pass::Fuse, Pass::Waits, Pass::Memory];

/// Records y = x (w² + 2)ᵀ[0] + neg(w)[0], of a constant w, and v += x.
fn recorded(m: &Machine, w: &Tensor, v: &Tensor, is_constant: bool) -> Recorded {
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let w = if is_constant { r.constant(w)? } else { r.bind(w)? };
        let v = r.bind(v)?;
        let other = r.stream(&StreamKey::compute(CPU, 1))?;
        let squared = r.call("mul", &[w, w]).on(other)?[0];
        let two = r.call("full", &[]).attr("shape", vec![2, 2]).attr("value", 2.0).run()?[0];
        let sum = r.call("add", &[squared, two]).run()?[0];
        let turned = r.call("transpose", &[sum]).attr("dim0", 0).attr("dim1", 1).run()?[0];
        let row = r.call("select", &[turned]).attr("dim", 0).attr("index", 0).run()?[0];
        let negated = r.call("neg", &[w]).run()?[0];
        let first = r.call("select", &[negated]).attr("dim", 0).attr("index", 0).run()?[0];
        let scaled = r.call("mul", &[x, row]).run()?[0];
        r.call("add_", &[v, x]).run()?;
        let y = r.call("add", &[scaled, first]).run()?[0];
        r.output("y", &y)
    });
    recorded.unwrap()
}

fn launch(f: &Executable, x: &Tensor) -> Vec<u32> {
    let y = read(f.launch().input("x", x).run().unwrap().output("y").unwrap());
    y.into_iter().map(f32::to_bits).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    /// Folded lists give the bits of the lists themselves, on every driver, and keep what launches
    /// change.
    #[test]
    fn launches_give_the_same_bits(values in proptest::collection::vec(-4.0f32..4.0, 4)) {
        for driver in ALL_DRIVERS {
            let m = Machine::new(MachineConfig::default().driver(driver)).unwrap();
            let s = cpu(&m, 0);
            let w = Tensor::from_slice(&values, (2, 2), &m).unwrap();
            let [v, other] = [0, 1].map(|_| upload(&s, &m, &[0.0, 0.0]));
            let plain = recorded(&m, &w, &v, false).optimize(FOLD, |_, _| ()).unwrap();
            prop_assert_eq!(plain.list().externals.len(), 4);
            let plain = plain.compile_as_is().unwrap();
            let mut seen = Vec::new();
            let folded = recorded(&m, &w, &other, true);
            let folded = folded.optimize(FOLD, |pass, list| seen.push((pass, list.clone())));
            let folded = folded.unwrap().compile_as_is().unwrap();
            prop_assert_eq!(seen[0].0, Pass::Fold);
            prop_assert_eq!(plain.folded(), FoldedCalls::default());
            // mul and add, and neg; `full` is no call of a constant.
            prop_assert_eq!(folded.folded(), FoldedCalls { calls: 3, bytes: 32 });
            prop_assert!(folded.describe().contains("3 calls folded, with 32 bytes of results"));
            for x in [[1.0, -2.0], [0.5, 3.0]] {
                let x = upload(&s, &m, &x);
                prop_assert_eq!(launch(&plain, &x), launch(&folded, &x));
            }
            prop_assert_eq!(read(&v), read(&other));
        }
    }
}

/// The list without the calls, whose results it is bound to.
#[test]
fn the_list_is_bound_to_the_results() {
    let m = inline();
    let w = Tensor::ones((2, 2), DType::F32, &m).unwrap();
    let v = upload(&cpu(&m, 0), &m, &[0.0, 0.0]);
    let folded = recorded(&m, &w, &v, true).optimize(&FOLD[..2], |_, _| ()).unwrap();
    insta::assert_snapshot!(listing(folded.list()), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 1 in-order
    stream s1 cpu:0 compute 0 in-order
    arena a0 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    external %1 "constant 0" f32[2,2] in 16 bytes of a0
    external %2 "bound 1" f32[2] in 8 bytes of a0
    external %11 "y" f32[2] in 8 bytes of a0
    external %5 "folded 0" f32[2,2] in 16 bytes of a0
    external %8 "folded 1" f32[2,2] in 16 bytes of a0
    ViewTensor %6 of %5 f32[2,2] strides [1,2]
    ViewTensor %7 of %6 f32[2] strides [2]
    ViewTensor %9 of %8 f32[2]
    AllocateTensor s1 %10 f32[2] as 8 bytes at a0+2048 generation 5
    OpCall s1:1 mul (%0 read, %7 read, %10 write)
    OpCall s1:2 add_ (%2 readwrite, %0 read)
    OpCall s1:3 add (%10 read, %9 read, %11 write)
    "#);
}

/// What is computed from constants and is an output, or is drawn, or is given by launches, is new
/// with each launch.
#[test]
fn outputs_and_draws_are_not_folded() {
    let m = inline();
    let w = upload(&cpu(&m, 0), &m, &[1.0, 2.0]);
    let random = Generator::new(7);
    let recorded = m.record(|r| {
        let w = r.constant(&w)?;
        let factor = r.scalar("factor", 3.0)?;
        let drawn = r.call("native_dropout", &[w]).attr("p", 0.5).draw(&random).run()?[0];
        let scaled = r.call("mul", &[w]).attr("other", factor).run()?[0];
        let y = r.call("neg", &[w]).run()?[0];
        let z = r.call("add", &[drawn, scaled]).run()?[0];
        r.output("y", &y)?;
        r.output("z", &z)
    });
    let f = recorded.unwrap().optimize(FOLD, |_, _| ()).unwrap().compile_as_is().unwrap();
    assert_eq!(f.folded(), FoldedCalls::default());
    let [one, two] = [0, 1].map(|_| f.launch().run().unwrap());
    one.output("y").unwrap().mul_(5.0).unwrap();
    assert_eq!(read(two.output("y").unwrap()), [-1.0, -2.0]);
}

/// Results of more than 64 MiB are computed by each launch.
#[test]
fn results_take_64_mib_at_most() {
    let m = inline();
    let w = Tensor::ones(1, DType::U8, &m).unwrap();
    let most = 64 << 20;
    for (rows, calls) in [(most / 2, 2), (most / 2 + 1, 1), (most, 1), (most + 1, 0)] {
        let recorded = m.record(|r| {
            let x = r.input("x", TensorSpec::contiguous(DType::U8, &[1])?)?;
            let w = r.constant(&w)?;
            for _ in 0..2 {
                let wide = r.call("expand", &[w]).attr("size", vec![rows]).run()?[0];
                let made = r.call("clone", &[wide]).run()?[0];
                let first = r.call("slice", &[made]).attr("end", 1).run()?[0];
                r.call("add_", &[x, first]).run()?;
            }
            Ok(())
        });
        let f = recorded.unwrap().optimize(&[Pass::Fold], |_, _| ()).unwrap();
        assert_eq!(f.compile_as_is().unwrap().folded().calls, calls, "{rows}");
    }
}

#[test]
fn refusals_name_their_place() {
    let m = inline();
    let w = upload(&cpu(&m, 0), &m, &[1.0, 2.0]);
    let written = m.record(|r| {
        let w = r.constant(&w)?;
        r.call("neg_", &[w]).run().map(drop)
    });
    let error = written.unwrap().optimize(&[Pass::Fold], |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("\"constant 0\" is a constant, and the list writes it"), "{error}");
    assert!(error.contains("folded.rs"), "{error}");
    let both = m.record(|r| r.bind(&w).and(r.constant(&w)).map(drop));
    let error = both.unwrap_err().to_string();
    assert!(error.contains("its storage is bound already as one that may change"), "{error}");
    let again = m.record(|r| r.constant(&w).and(r.bind(&w)).and(r.constant(&w)).map(drop));
    again.unwrap();
    // A call that fails does so when the list is compiled.
    let wrong = Tensor::from_slice(&[7i64], 1, &m).unwrap();
    let failing = m.record(|r| {
        let x = r.input("x", f32_spec(&[1]))?;
        let (w, wrong) = (r.constant(&w)?, r.constant(&wrong)?);
        let selected = r.call("index_select", &[w, wrong]).attr("dim", 0).run()?[0];
        r.call("add_", &[x, selected]).run().map(drop)
    });
    let error = failing.unwrap().optimize(&[Pass::Fold], |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("index_select") && error.contains("folded.rs"), "{error}");
}
