//! Public-key jobs: every tier gives every job the same answer or refusal, however many share a batch and whatever
//! stands beside them.

use sealane_transform::{
    ASYMMETRIC_WAYS, Asymmetric, AsymmetricJob, AsymmetricOperation, Isa, Kernels, Refusal, Tier,
};

type Outcome = Result<Vec<u8>, Refusal>;

fn outcome(job: &AsymmetricJob) -> Outcome {
    job.answer().expect("it has run").map(<[u8]>::to_vec)
}

/// Runs all jobs again with the kernels, and returns their outcomes.
fn outcomes(kernels: &Kernels, jobs: &mut [AsymmetricJob]) -> Vec<Outcome> {
    jobs.iter_mut().for_each(AsymmetricJob::reset);
    let refused = kernels.asymmetric(&mut *jobs);
    let outcomes: Vec<Outcome> = jobs.iter().map(outcome).collect();
    assert_eq!(refused, outcomes.iter().filter(|outcome| outcome.is_err()).count());
    outcomes
}

fn forced(tier: Tier) -> Kernels {
    Kernels::select(Some(tier), None).unwrap()
}

/// Returns every step of every algorithm.
fn samples() -> impl Iterator<Item = fn() -> AsymmetricOperation> {
    Asymmetric::ALL.into_iter().flat_map(|algorithm| algorithm.steps()).map(|step| step.sample)
}

#[test]
fn all_tiers_agree_for_one_to_nine_jobs() {
    for sample in samples() {
        let mut jobs: Vec<AsymmetricJob> = (0..9).map(|_| AsymmetricJob::new(sample())).collect();
        let expected = outcomes(&forced(Tier::Native), &mut jobs);
        assert!(expected.iter().all(Result::is_ok), "{:?}", jobs[0].operation());
        assert_eq!(outcomes(&forced(Tier::Reference), &mut jobs[..2]), expected[..2], "{:?}", jobs[0]);
        for count in 1..=jobs.len() {
            let found = outcomes(&forced(Tier::Batch), &mut jobs[..count]);
            assert_eq!(found, expected[..count], "{count} x {:?}", jobs[0].operation());
        }
        assert_eq!(outcomes(&Kernels::best(), &mut jobs), expected);
        for isa in [Isa::Portable, Isa::Avx2] {
            for tier in [None, Some(Tier::Generic), Some(Tier::Batch)] {
                // This machine may lack the instructions.
                let Ok(kernels) = Kernels::select(tier, Some(isa)) else { continue };
                assert_eq!(outcomes(&kernels, &mut jobs), expected, "{isa} {tier:?} {:?}", jobs[0]);
            }
        }
    }
}

#[test]
fn classes_that_stand_between_each_other_are_sorted_apart() {
    let cheap = |sample: &fn() -> AsymmetricOperation| {
        let (algorithm, _) = sample().class();
        !matches!(algorithm, Asymmetric::Rsa3072 | Asymmetric::Rsa4096)
    };
    let all: Vec<_> = samples().filter(cheap).collect();
    let mut jobs: Vec<AsymmetricJob> =
        (0..5).flat_map(|_| &all).map(|sample| AsymmetricJob::new(sample())).collect();
    let expected = outcomes(&forced(Tier::Native), &mut jobs);
    assert_eq!(outcomes(&Kernels::best(), &mut jobs), expected);
    assert_eq!(outcomes(&forced(Tier::Batch), &mut jobs), expected);
}

#[test]
fn a_job_that_has_run_keeps_its_answer() {
    let mut job = AsymmetricJob::new((Asymmetric::X25519.steps()[0].sample)());
    assert!(job.answer().is_none() && !job.is_done());
    Kernels::best().asymmetric([&mut job]);
    let before = outcome(&job);
    assert_eq!(Kernels::best().asymmetric([&mut job]), 0);
    assert_eq!(outcome(&job), before);
}

#[test]
fn ways_run_from_the_least_number_on() {
    for sample in samples() {
        let operation = sample();
        let least = Kernels::best().asymmetric_least(&operation);
        let is_ml_dsa = operation.class().0.name().starts_with("ml-dsa");
        let has_ways = match Kernels::best().isa() {
            Isa::Portable => false,
            Isa::Avx2 => is_ml_dsa,
            Isa::Avx512 => true,
        };
        assert!(has_ways || least.is_none(), "{operation:?}");
        assert!(least.is_none_or(|least| (1..=ASYMMETRIC_WAYS).contains(&least)), "{operation:?} {least:?}");
        assert_eq!(forced(Tier::Native).asymmetric_least(&operation), None);
    }
}

#[test]
fn names_parse_back_and_facts_are_there() {
    for algorithm in Asymmetric::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        let facts = algorithm.facts();
        assert!(facts.security_bits >= 100 && facts.public_bytes >= 32 && facts.answer_bytes >= 32);
        assert!(!algorithm.steps().is_empty() && !facts.source.is_empty());
    }
    assert!("rsa-1024".parse::<Asymmetric>().is_err());
}

#[test]
fn nothing_secret_is_printed() {
    for sample in samples() {
        let text = format!("{:?}", AsymmetricJob::new(sample()));
        assert!(text.len() < 120, "{text}");
    }
}
