//! Calls that complete after their kernel has returned, by a token.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millstream::kernels::{CompletionToken, KernelCtx};
use millstream::*;
use millstream_testing::machine::*;

/// Where a test finds the tokens of the calls of `later`, in the order in which their kernels ran.
type Tokens = mpsc::Receiver<CompletionToken>;

/// A machine with `later`, whose kernel writes 1 and gives its token away; `both`, whose kernel also
/// fails; `drops`, whose kernel drops its token; `twice`, which asks for two.
fn machine(driver: DriverKind) -> (Machine, Tokens) {
    let (give, tokens) = mpsc::channel();
    let give = Arc::new(Mutex::new(give));
    let mut config = config(driver, SyncPolicy::Frontier);
    let to = give.clone();
    add_op(&mut config, "later", move |ctx| {
        write(ctx, 1.0)?;
        Ok(to.lock().unwrap().send(ctx.take_completion_token()?)?)
    });
    add_op(&mut config, "both", move |ctx| {
        give.lock().unwrap().send(ctx.take_completion_token()?)?;
        anyhow::bail!("broken all the same")
    });
    add_op(&mut config, "drops", |ctx| ctx.take_completion_token().map(drop));
    add_op(&mut config, "twice", |ctx| {
        ctx.take_completion_token()?.complete(Ok(()));
        ctx.take_completion_token().map(drop)
    });
    let sim = config.kernels.get("cpu", "later").cloned().unwrap();
    config.kernels.register("sim", "later", sim);
    (Machine::new(config).unwrap(), tokens)
}

fn write(ctx: &KernelCtx<'_>, value: f32) -> anyhow::Result<()> {
    // SAFETY: the call's result, one element of the host's.
    unsafe { *ctx.operand(1)?.data.cast::<f32>() = value };
    Ok(())
}

fn streams(m: &Machine) -> [Stream; 2] {
    let pool = m.stream_with_mode(&StreamKey::compute(CPU, 7), StreamMode::Pool).unwrap();
    [cpu(m, 0), pool]
}

#[test]
fn a_call_completes_when_its_token_says_so() {
    for driver in DRIVERS {
        let (m, tokens) = machine(driver);
        for s in streams(&m) {
            let x = upload(&s, &m, &[0.0]);
            let y = call(&m, "later", &[&x], &s);
            let z = call(&m, "add", &[&y, &y], &s);
            let token = tokens.recv_timeout(LONG).unwrap();
            let done = s.completion().unwrap();
            assert!(!done.query(), "{driver:?}");
            // From another thread, while this one waits.
            let other = std::thread::spawn(move || token.complete(Ok(())));
            assert_eq!((read(&y), read(&z)), (vec![1.0], vec![2.0]), "{driver:?}");
            other.join().unwrap();
        }
        m.synchronize().unwrap();
    }
}

/// In order, what comes later waits, whatever it uses. On a pool it does not.
#[test]
fn a_call_in_flight_occupies_its_stream_and_no_pool() {
    let (m, tokens) = machine(DriverKind::Threaded);
    let [s, p] = streams(&m);
    for (stream, overtakes) in [(s, false), (p, true)] {
        let (x, other) = (upload(&stream, &m, &[0.0]), upload(&stream, &m, &[3.0]));
        let y = call(&m, "later", &[&x], &stream);
        let first = tokens.recv_timeout(LONG).unwrap();
        let after = call(&m, "later", &[&other], &stream);
        if overtakes {
            let second = tokens.recv_timeout(LONG).unwrap();
            second.complete(Ok(()));
            first.complete(Ok(()));
        } else {
            assert!(tokens.try_recv().is_err());
            first.complete(Ok(()));
            tokens.recv_timeout(LONG).unwrap().complete(Ok(()));
        }
        assert_eq!((read(&y), read(&after)), (vec![1.0], vec![1.0]));
    }
    m.synchronize().unwrap();
}

#[test]
fn failures_by_way_of_tokens() {
    for driver in DRIVERS {
        let (m, tokens) = machine(driver);
        for s in streams(&m) {
            let x = upload(&s, &m, &[0.0]);
            let told = |op: &str, end: &dyn Fn(CompletionToken)| {
                let y = call(&m, op, &[&x], &s);
                end(tokens.recv_timeout(LONG).unwrap());
                failure(y.read().unwrap_err()).message.clone()
            };
            let broken = |t: CompletionToken| t.complete(Err(anyhow::anyhow!("broken far away")));
            assert_eq!(told("later", &broken), "broken far away");
            assert_eq!(
                told("later", &drop),
                "the call's completion token was dropped before it completed"
            );
            assert_eq!(told("both", &|t| t.complete(Ok(()))), "broken all the same");
            let alone = |op: &str| {
                let y = call(&m, op, &[&x], &s);
                failure(y.read().unwrap_err()).message.clone()
            };
            assert_eq!(
                alone("drops"),
                "the call's completion token was dropped before it completed"
            );
            assert_eq!(alone("twice"), "the call's completion token was taken before");
            // The stream goes on.
            assert_eq!(read(&call(&m, "relu", &[&x], &s)), [0.0]);
        }
        m.clear_failures();
        m.synchronize().unwrap();
    }
}

/// An error that a kernel returns counts once the token has gone, whose holder may be using the memory.
#[test]
fn an_error_waits_for_the_token() {
    let (m, tokens) = machine(DriverKind::Threaded);
    for s in streams(&m) {
        let x = upload(&s, &m, &[0.0]);
        let y = call(&m, "both", &[&x], &s);
        let token = tokens.recv_timeout(LONG).unwrap();
        let done = s.completion().unwrap();
        let late = done.wait_for(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late.without_place(), Error::Timeout { .. }), "{late}");
        drop(token);
        assert_eq!(failure(y.read().unwrap_err()).message, "broken all the same");
    }
}

#[test]
fn a_prepared_call_may_complete_later() {
    let (give, tokens) = mpsc::channel();
    let give = Mutex::new(give);
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    config.kernels.register(
        "cpu",
        "add_",
        Arc::new(move |ctx: &KernelCtx<'_>| {
            Ok(give.lock().unwrap().send(ctx.take_completion_token()?)?)
        }),
    );
    let m = Machine::new(config).unwrap();
    for s in streams(&m) {
        let x = upload(&s, &m, &[1.0]);
        let add = m.prepare("add_", &[&x, &x], Attrs::new()).unwrap();
        let mut batch = m.batch();
        (0..3).for_each(|_| batch.call(&add, &s).unwrap());
        drop(batch);
        (0..3).for_each(|_| tokens.recv_timeout(LONG).unwrap().complete(Ok(())));
        m.synchronize().unwrap();
    }
}

#[test]
fn where_the_device_runs_by_itself_a_kernel_completes_its_call() {
    let (m, _tokens) = machine(DriverKind::Threaded);
    let s = sim(&m, 0);
    let x = upload(&s, &m, &[0.0]);
    let message = failure(call(&m, "later", &[&x], &s).read().unwrap_err()).message.clone();
    assert_eq!(message, "no completion token: calls of this device complete on its stream");
}
