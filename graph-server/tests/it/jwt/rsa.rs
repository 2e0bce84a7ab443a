//! Public RSA keys and signatures for tests. The private keys were deleted, because signing with RSA is slow without
//! optimisation.

/// Modulus of the key that made the signatures, base64url-encoded.
pub(super) const MODULUS: &str = "lZM3S-8JTouEY-e905TlCehY-PUEDTsifo14cnK9d3XKSI5kmL7DfudvyLdQfHCz6AevDpkEkmLkyryFtuFssiW7cLPwWbVhQhfX33sPfbmEISZg4UucjV1336C0U6vqgXSpyoMv9MIPoEr8w8ppnL2PzJEr_oCtlFQcWgVzHU4PSrcILqdQT8krOrrY7TUjnXUZr9gGg7lcABxKLWN8aTOFopo17a1xs3ZqZIPGIELvLADIMU56TxHrz-ohmffL-t5-wJgPGll-HbMNMnpTpzY5tvHL1bFE7Bs5UYTzu6duswBqRU4YiAXFQuyVEFt_2MwknkWgha2rrXOrgUBIAQ";

/// The same key as a DER document (SPKI), base64-encoded.
pub(super) const PUBLIC_KEY: &str = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAlZM3S+8JTouEY+e905TlCehY+PUEDTsifo14cnK9d3XKSI5kmL7DfudvyLdQfHCz6AevDpkEkmLkyryFtuFssiW7cLPwWbVhQhfX33sPfbmEISZg4UucjV1336C0U6vqgXSpyoMv9MIPoEr8w8ppnL2PzJEr/oCtlFQcWgVzHU4PSrcILqdQT8krOrrY7TUjnXUZr9gGg7lcABxKLWN8aTOFopo17a1xs3ZqZIPGIELvLADIMU56TxHrz+ohmffL+t5+wJgPGll+HbMNMnpTpzY5tvHL1bFE7Bs5UYTzu6duswBqRU4YiAXFQuyVEFt/2MwknkWgha2rrXOrgUBIAQIDAQAB";

/// Modulus of another key, base64url-encoded.
pub(super) const OTHER_MODULUS: &str = "up41L6sanGwLRWBtQ6Qyp-i14mynug1JzKF3Q3xow2RRYN1AeUfG1HD-SpIeQUjRqa1H5nGvCOCtH9CQHspWMpq9xHdtUzXbjhn0mrqow8HrjRdgb-CzeT98DzQJtYv5JYuH5c9px1YavDylKWeDfLLVaTZuRfZvD0bKkUhaT1bB3xZci9-vZnrBZI5axUokGoBPTyv0Se4a6SXOdQ2BviOaEH062UBKoPHLc5zlIOmatPtpau04BJsq2tbfr5KcGepuGbHiLQlwkuba8VMG7xnBxsxDSEWr_ROUAyapdC-4dX4Iu-sVIJt_74qQTBc-zaqyYE53hYKnPmWpYNWb5Q";

/// Claims of the signed tokens.
const CLAIMS: &str = r#"{"sub":"ada","exp":4102444800}"#;

/// Returns the tokens that are signed with the key, with the names of their algorithms. `message` encodes a header and
/// claims.
pub(super) fn tokens(
    message: fn(&str, &str) -> String,
) -> impl Iterator<Item = (&'static str, String)> {
    SIGNATURES.into_iter().map(move |(name, signature)| {
        let message = message(&format!(r#"{{"alg":"{name}"}}"#), CLAIMS);
        (name, format!("{message}.{signature}"))
    })
}

const SIGNATURES: [(&str, &str); 6] = [
    (
        "RS256",
        "FHXnfV6NhD9BuaKfdJiqJi5zWrmgikvLj2_otNphSNM65KSmMC39L0G2xKInu3ia7QV5Ek37IoKOXkHi2QDF7haThWuVnVEf7-e5UxEx_L17MYl4y6W82hAI2tvyPl726XuZdA5q88xi1q9laTP60ZWGdjWb1OYFsPVsmBr2YrXhqDCMbBe-lD_lSvrR5tpuGEyjwsT8cI_5kj2f6ySpGdce1CDCYP6eNHG7xowDQWF5gtYxuOdqik6HoaYBrsWhrEzsCqOuYMkHR4llO5YMrJCDhxT9ozeGXW7wiXomBlH8Dg8DExP0gOz4Jsp6pXQ_mzjdV7GSoWU0q8HwpeS1xA",
    ),
    (
        "RS384",
        "EsMNhD_3YNbpIPbfBhDmT1gAWoh0lWYJjMVdeQfOFnF3-UHgQs-qxoo60-q02OabcfMziYNymNvleYAgqmiqUGxl4lb6VTHlX-HIPkEolYKLBNX7CpB3QFFnxauC3KJ3rh4AYDiMAhV_OS4vHWk9gkr36I_jsrGR6N9YruiYKeYIJkVDFuusWJjLIx3x3TymXIf5eHYELxTKFr-1Za6DVtkijhx2lWG1RH9QeQeDUA22XEJUjkieQJJBs_3mKZeCm1QC6bZuMVE7Xuas-oeyTCS70B4Nf2y6P6QMJf3CK1UjP3EUxCGeTbQJ2h8CKKStMrkIJGpuXLZCo-sdafzDwQ",
    ),
    (
        "RS512",
        "enRFcHYzMVC8Nkg2ITPZ1RReQiaZbQpu5bhK6r_5PWJ9thbbw3rb40C7_h-qKxEFvIHZraypqUc8dCbED_a01505gS3qZC5UrDxSH1w-PwYzhdibf_eBIjVsLTuUBQgZuH6SmZt0o6n4_GzL-SWzH3MTDBXoyXH_CmW81MpJGfosynFxIo_oEvVjlnGfI-H6x6q-9g724k4DCVr6RpSR3XJok6LUHcQKncBL5I1BXXdWzd5rRWqwFSJA-0tlqzhzbR3I578GIGC-e6moIdSsAzGEiWbFdqHOyCTEo24jsKnNXgYQnmwVihNQ33j_hqz57mCUzKfGg6w50ic5dRMt9w",
    ),
    (
        "PS256",
        "TBYLdyNAIoqdYalgwzgEZlmkmRR3BuqMJrb7Vmo2ddhgNZuwRixM5k-YwU8jKiAZKWKUCBcRmPsF1PX_mQDmvf5PnTg_aeqr3NFXbM9Ygb3GqPwtmv-Qa45gKvXoKN9x3EqUyGpheI-kZSNeW3V8FA6J_aNpTDbcc99qxpabesziZu_whFRMX8VODA2CENBATZqDVAkDdYeIIqht-72f5QbUmLP_yQZw62IFUjLBGsfsshsjha7hP88ovMwmP4-OYqdsnhVi3NRXIc7NCE2OiKKtUJygCIpJEMV497lzoGJd5DZR06Nj1mjtRvfe51O-_XQoihORKsWW7Kccwt6R-Q",
    ),
    (
        "PS384",
        "adrlBmDhpDKr7mNe6HQvjNZVMd0_v3Vhgkxqxkq9mp9_s8BvlYYpSn_PgAw6coMTA6jVrzc5gmWF0nND_aVQcMpD0ZaiJrc1Yx0Q5C1W6hXERlAy8HvUbLpVjytqhHoaS_dl2YmF0QOsjcB5BxH2PhYwmRJgR87j4mb3qnTAjT8mDQHfd9Cf_DpfweFqdPsbzwIbx53URtb6QYs-uNrQtUDZ2VKlr-kBRwsYziWganczbKZ2ayAkoprNpCscvoqLeWjzEYvkK0SBXgy_gd9nLPGpfC_l_XGq7Kogmux6J33fI9bqQxV6DuD-wf091EPVTOgr6hPdztwNEbbL2hzixA",
    ),
    (
        "PS512",
        "b8ajXRIM-GJYpwV4Z3_vWgQYa8E08S3RGANKZQRaWNoO5zv1lVdjS3z35WhdTh0Zxh3yz5iPrmEQkFqkxkBSCYURGczwgLRjXavXPABnIp9UwM_K4437VUO84APnSY5lgU-XzODiOWROaCvErkgyrm22pP-LOGSvX_UqH9FpYMhm7S8rzeRuU7DwBXFplQ4O6LE-GbYi2uW8d42d2lkOQGCfb-Ar5FUXUhMyln7FPm6RzCk_5etAicsLepTRQtvrpcC23kYqUgx288klo6xS2p0ZbyiOoWqliaiA8Vmt0kW7AGbgzvSyCqCavDvkB52nwYwAoqh5MvX18NC4fzLRmg",
    ),
];
